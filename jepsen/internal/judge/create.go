package judge

import (
	"fmt"

	"holdfast/jepsen/internal/history"
)

// Create judges names (keys) that several clients create at once: operations "create" (Text or Arg is
// what the client would make there) are ok, refused because the name exists (fail), or unknown.
// "look" shows the id (Text) that the thing has, and what was made (Arg); or that there is none (Text
// is empty).
func Create(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	for _, key := range keys {
		createKey(&v, key, of[key])
	}
	v.note("%d names", len(keys))
	return v
}

func createKey(v *Verdict, key string, ops []*history.Op) {
	var made *history.Op
	for _, o := range ops {
		if o.F != "create" || o.Type != history.OK {
			continue
		}
		if made != nil {
			v.add("created twice", key, made, o)
		}
		made = o
	}
	for _, o := range ops {
		if o.F == "create" && o.Type == history.Fail && !anotherBefore(o, ops) {
			v.add("refused for nothing", fmt.Sprintf("%s did not exist", key), o)
		}
	}
	createLooks(v, key, made, ops)
}

// anotherBefore says whether something may have made the name before o was refused.
func anotherBefore(o *history.Op, ops []*history.Op) bool {
	for _, other := range ops {
		may := other.F == "create" && other != o && other.Type != history.Fail
		if may && other.Invoke <= o.Return {
			return true
		}
	}
	return false
}

func createLooks(v *Verdict, key string, made *history.Op, ops []*history.Op) {
	var first, earliest *history.Op // that saw it; of them, the first to return
	for _, o := range ops {
		if o.F != "look" || o.Type != history.OK || o.Text == "" {
			continue
		}
		if first != nil && (first.Text != o.Text || first.Arg != o.Arg) {
			v.add("two things of one name", key, first, o)
		}
		if earliest == nil || o.Return < earliest.Return {
			earliest = o
		}
		first = o
		switch {
		case made != nil && made.Arg != o.Arg:
			v.add("not what was created", key, made, o)
		case made != nil && o.Before(made):
			v.add("early", fmt.Sprintf("%s was seen before its creation began", key), o, made)
		case made == nil && !mayHaveMade(o, ops):
			v.add("phantom", fmt.Sprintf("nobody created %s", key), o)
		}
	}
	for _, o := range ops {
		if o.F != "look" || o.Type != history.OK || o.Text != "" {
			continue
		}
		if made != nil && made.Before(o) {
			v.add("lost", fmt.Sprintf("%s was created and is not there later", key), made, o)
		}
		if earliest != nil && earliest.Before(o) {
			v.add("stale", fmt.Sprintf("%s was there before", key), earliest, o)
		}
	}
}

func mayHaveMade(look *history.Op, ops []*history.Op) bool {
	for _, o := range ops {
		if o.F == "create" && o.Type == history.Info && o.Arg == look.Arg && o.Invoke <= look.Return {
			return true
		}
	}
	return false
}
