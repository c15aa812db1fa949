package judge

import (
	"fmt"

	"holdfast/jepsen/internal/history"
)

// Once judges things (keys) that are good for one use: operations "use" are ok or refused (fail).
// At most one is ok; none is ok that began after one was refused; and if all answers are known, one
// is ok.
func Once(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	used := 0
	for _, key := range keys {
		used += onceKey(&v, key, of[key])
	}
	v.note("%d things, %d of them were used by one client for certain", len(keys), used)
	return v
}

func onceKey(v *Verdict, key string, ops []*history.Op) (used int) {
	var good, refused *history.Op
	uses, unknown := 0, 0
	for _, o := range ops {
		if o.F != "use" {
			continue
		}
		uses++
		switch o.Type {
		case history.Info:
			unknown++
		case history.Fail:
			if refused == nil || o.Return < refused.Return {
				refused = o
			}
		case history.OK:
			if good != nil {
				v.add("used twice", key, good, o)
			}
			good, used = o, 1
		}
	}
	if uses > 0 && good == nil && unknown == 0 {
		v.add("never good", fmt.Sprintf("%s was refused to all", key), refused)
	}
	if good != nil && refused != nil && refused.Before(good) {
		v.add("good after it was refused", key, refused, good)
	}
	return used
}
