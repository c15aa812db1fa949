package judge

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/history"
)

// Kinds of tokens.
const (
	Brief   = "brief"   // ends at its expire_time (Value of the creation, ns of the run)
	Limited = "limited" // good for Arg uses
	Tree    = "tree"    // ends when the token that Names tells is revoked
	// Renewed and Periodic end at the expire_time that the last renewal gave. Value of the creation is the
	// first expire_time, Values are what each renewal gives and, of Renewed, the longest life in all (ns).
	Renewed  = "renewed"
	Periodic = "periodic"
	Batch    = "batch" // ends as Brief and, where Names tells of a tree, as Tree
)

const (
	early   = int64(50 * time.Millisecond) // times are told in milliseconds
	back    = int64(10 * time.Second)
	lateMax = int64(20 * time.Second)
)

// Tokens judges uses of tokens (Value 1: accepted, 0: refused) on any node:
//
//   - brief: none is refused before its expire_time. None is accepted by a request that began
//     `late` after it, nor 10 s after one that expires no sooner was refused;
//   - tree: once the revocation of its root was acknowledged no request that begins succeeds; before
//     it was asked for none is refused;
//   - limited: at most Arg succeed, and when one is refused all uses are accounted for;
//   - renewed, periodic: as brief, with what renewals (F "renew") gave; see lives;
//   - batch: as brief and as tree; no renewal is granted.
//
// The bounds follow from rule R16 of PROTOCOL.md: cluster time never runs ahead of the clocks, which
// are one clock here, but a new leader lacks what the last question to the one before was under way.
func Tokens(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	j := &tokenJudge{h: h, of: of, revoked: map[string]*history.Op{}}
	for _, o := range h.Ops {
		if o.F == "revoke" {
			if first := j.revoked[o.Key]; first == nil || first.Type == history.Info {
				j.revoked[o.Key] = mergeRevocation(first, o)
			}
		}
	}
	for _, key := range keys {
		j.token(&v, of[key])
	}
	j.backwards(&v)
	v.note("%d tokens; used and refused: %v; accepted at most %v after expire_time",
		len(keys), j.counts(), time.Duration(j.latest))
	return v
}

// mergeRevocation: the revocation may have happened since the first was asked for, and is certain
// when one was acknowledged.
func mergeRevocation(first, o *history.Op) *history.Op {
	if first == nil {
		return o
	}
	both := *o
	both.Invoke = first.Invoke
	return &both
}

type refusal struct{ at, expires int64 }

type tokenJudge struct {
	h        *history.History
	of       map[string][]*history.Op
	revoked  map[string]*history.Op
	refusals []refusal
	accepted []struct {
		o       *history.Op
		expires int64
	}
	latest int64
	good   map[string]int
}

func (j *tokenJudge) counts() map[string]int { return j.good }

func (j *tokenJudge) count(what string) {
	if j.good == nil {
		j.good = map[string]int{}
	}
	j.good[what]++
}

func (j *tokenJudge) token(v *Verdict, ops []*history.Op) {
	var made *history.Op
	var uses []*history.Op
	for _, o := range ops {
		switch {
		case o.F == "create" && o.Type == history.OK:
			made = o
		case (o.F == "use" || o.F == "renew") && o.Type != history.Fail:
			uses = append(uses, o)
		}
	}
	if made == nil {
		return
	}
	if made.Text == Limited {
		j.limited(v, made, uses)
	}
	for _, o := range uses {
		if o.Type != history.OK {
			continue
		}
		if Accepted(o) {
			j.count(made.Text + " used")
		} else {
			j.count(made.Text + " refused")
		}
		switch made.Text {
		case Renewed, Periodic:
			j.lives(v, made, uses, o)
		case Batch:
			j.batch(v, made, o)
		case Brief:
			j.until(v, made, o, made.Value, made.Value)
		case Tree:
			j.tree(v, made, o)
		}
	}
}

func (j *tokenJudge) limited(v *Verdict, made *history.Op, uses []*history.Op) {
	good := int64(0)
	for _, o := range uses {
		if o.Type == history.OK && o.Value == 1 {
			good++
			if good > made.Arg {
				v.add("too many uses", fmt.Sprintf("use %d of %d", good, made.Arg), made, o)
			}
		}
	}
	for _, o := range uses {
		if o.Type != history.OK || o.Value != 0 {
			continue
		}
		may := int64(0)
		for _, other := range uses {
			counts := other.Type == history.Info || other.Value == 1
			if counts && other.Invoke <= o.Return {
				may++
			}
		}
		if may < made.Arg {
			v.add("refused early", fmt.Sprintf("at most %d of %d uses were made", may, made.Arg), made, o)
		}
		for _, later := range uses {
			if later.Type == history.OK && later.Value == 1 && o.Before(later) {
				v.add("accepted after it was refused", made.Key, o, later)
				break
			}
		}
	}
}

// lateBy is how late a request that began at `at` may still be accepted: a second, and for each fault
// so far as long as it was, and a second.
func (j *tokenJudge) lateBy(at int64) int64 {
	late := int64(time.Second)
	for _, f := range j.h.Faults {
		if f.Start < at {
			late += min(f.End, at) - f.Start + int64(time.Second)
		}
	}
	return min(late, lateMax)
}

// until: a token that expires between `least` and `most` is good before and no longer.
func (j *tokenJudge) until(v *Verdict, made, o *history.Op, least, most int64) {
	if !Accepted(o) {
		if o.Return < least-early {
			v.add("refused early", fmt.Sprintf("%v before expire_time", time.Duration(least-o.Return)), made, o)
		}
		j.refusals = append(j.refusals, refusal{o.Return, least})
		return
	}
	j.latest = max(j.latest, o.Invoke-most)
	if late := j.lateBy(o.Invoke); o.Invoke > most+late {
		v.add("accepted late", fmt.Sprintf("%v after expire_time, %v allowed", time.Duration(o.Invoke-most), time.Duration(late)), made, o)
	}
	j.accepted = append(j.accepted, struct {
		o       *history.Op
		expires int64
	}{o, most})
}

func (j *tokenJudge) tree(v *Verdict, made, o *history.Op) {
	revoked := j.revoked[made.Names[0]]
	if o.Value == 0 {
		if revoked == nil || o.Return < revoked.Invoke {
			v.add("refused early", "nobody had revoked it", made, o)
		}
	} else if revoked != nil && revoked.Type == history.OK && revoked.Before(o) {
		v.add("accepted after its revocation", made.Key, revoked, o)
	}
}

// backwards: cluster time was once beyond the expire_time of a token that is accepted much later.
func (j *tokenJudge) backwards(v *Verdict) {
	for _, a := range j.accepted {
		for _, r := range j.refusals {
			if r.expires >= a.expires && r.at+back < a.o.Invoke {
				v.add("accepted late", "long after one that expires no sooner was refused", a.o)
				return
			}
		}
	}
}
