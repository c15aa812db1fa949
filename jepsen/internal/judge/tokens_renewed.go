package judge

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/history"
)

// NotRenewable is the Value of a renewal that was refused because of what the token is: the token was
// good. Else Value is the expire_time that the token has then, or 0 where it was refused as any use is.
const NotRenewable = -1

// Accepted says whether the token of a use or a renewal was good.
func Accepted(o *history.Op) bool {
	if o.F == "renew" {
		return o.Value != 0
	}
	return o.Value == 1
}

// lives judges one use or renewal of a token that is renewed, one renewal after the other:
//
//   - a renewal gives what Values tells from a moment between its invocation and its return, but no more
//     than the longest life;
//   - no use is refused before the expire_time that the last renewal gave. One without a known outcome
//     may be the last: cluster time may then have been lower than before (R16), by lateBy;
//   - none is accepted later than lateBy after the last expire_time that there can have been. A renewal
//     without a known outcome takes effect at any time at which the token is good.
func (j *tokenJudge) lives(v *Verdict, made *history.Op, uses []*history.Op, o *history.Op) {
	t := lifetime{made: made, ttl: made.Values[0], last: history.Open}
	if len(made.Values) > 1 {
		t.last = made.Value - t.ttl + made.Values[1]
	}
	if o.F == "renew" && o.Value > 0 {
		j.count(made.Text + " renewed")
		t.granted(v, o, j.lateBy(o.Return))
	}
	if Accepted(o) && o.Invoke > made.Value {
		j.count(made.Text + " outlived its ttl")
	}
	late := j.lateBy(o.Invoke)
	j.until(v, made, o, t.least(uses, o, late), t.most(uses, o, late))
}

type lifetime struct {
	made      *history.Op
	ttl, last int64 // last: it ends then in any case
}

func (t lifetime) granted(v *Verdict, o *history.Op, late int64) {
	from, to := min(o.Invoke+t.ttl-late, t.last), min(o.Return+t.ttl, t.last)
	if o.Value < from-early || o.Value > to+early {
		v.add("renewed wrongly", fmt.Sprintf("expire_time is %v after %v, which the renewal can have given at the most",
			time.Duration(o.Value-to), time.Duration(to)), t.made, o)
	}
}

// least expire_time that a token may have had during o.
func (t lifetime) least(uses []*history.Op, o *history.Op, late int64) int64 {
	known, unknown := t.made.Value, false
	for _, r := range uses { // by invocation; no two with a known outcome overlap
		switch {
		case r == o || r.F != "renew" || r.Invoke > o.Return:
		case r.Type == history.Info:
			unknown = true
		case r.Value > 0 && r.Before(o):
			known = r.Value
		case r.Value > 0:
			known = min(known, r.Value)
		}
	}
	if unknown {
		known -= late
	}
	return known
}

// most that a token's expire_time may have been before o.
func (t lifetime) most(uses []*history.Op, o *history.Op, late int64) int64 {
	end := t.made.Value
	for _, r := range uses {
		switch {
		case r == o || r.F != "renew" || r.Invoke > o.Return:
		case r.Type == history.OK:
			end = max(end, r.Value)
		case r.Invoke <= end+late:
			end += late + t.ttl
		}
	}
	return min(end, t.last)
}

// batch: none is renewed, and none outlives its parent.
func (j *tokenJudge) batch(v *Verdict, made, o *history.Op) {
	if o.F == "renew" && o.Value == NotRenewable {
		j.count(made.Text + " not renewed")
	} else if o.F == "renew" && o.Value != 0 {
		v.add("renewed wrongly", "a batch token", made, o)
	}
	if len(made.Names) > 0 {
		revoked := j.revoked[made.Names[0]]
		if revoked != nil && !Accepted(o) && o.Return >= revoked.Invoke {
			j.count(made.Text + " ended by its parent")
			return
		}
		if revoked != nil && Accepted(o) && revoked.Type == history.OK && revoked.Before(o) {
			v.add("accepted after its parent's revocation", made.Key, made, revoked, o)
		}
	}
	j.until(v, made, o, made.Value, made.Value)
}
