package judge

import (
	"fmt"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generateLives: tokens that are renewed, periodic, batch, batch in a tree, and batch without a parent,
// one after the other. Cluster time lags behind by less than a second; some renewals take effect later
// or not at all.
func generateLives(seed int64) *history.History {
	w := newWorld(seed)
	lag := w.Int63n(9 * second / 10)
	for i := range int64(4) {
		at := i * 20 * second
		generateLife(w, Renewed, fmt.Sprintf("r%d", i), at, lag, 3*second, 8*second)
		generateLife(w, Periodic, fmt.Sprintf("p%d", i), at, lag, 3*second, history.Open)
		generateBatch(w, fmt.Sprintf("b%d", i), at, lag)
	}
	return w.history()
}

func (w *world) add(o history.Op) { w.h.Ops = append(w.h.Ops, &o) }

func generateLife(w *world, kind, key string, at, lag, ttl, longest int64) {
	expires, last := at-lag+ttl, int64(history.Open)
	made := history.Op{F: "create", Key: key, Text: kind, Type: history.OK, Invoke: at - 2, Return: at + 1, Value: expires, Values: []int64{ttl}}
	if longest != history.Open {
		last = at - lag + longest
		made.Values = append(made.Values, longest)
	}
	w.add(made)
	renews := func(m int64) {
		if m-lag < expires {
			expires = min(m-lag+ttl, last)
		}
	}
	pending := false // a renewal that may come later
	for n := range int64(36) {
		o := history.Op{F: "use", Key: key, Type: history.OK, Invoke: at + (n+1)*second/2, Value: 1}
		o.Return = o.Invoke + second/10
		m := o.Invoke + w.Int63n(second/10)
		if pending {
			renews(o.Invoke - second/10)
			pending = false
		}
		good := m-lag < expires
		renewal := n < 20 && n%3 == 2
		switch {
		case !good:
			o.Value = 0
			if n%3 == 2 {
				o.F = "renew"
			}
		case renewal && w.Intn(20) == 0:
			o.F, o.Type, o.Value, o.Return = "renew", history.Info, 0, history.Open
			pending = w.Intn(2) == 0
		case renewal:
			renews(m)
			o.F, o.Value = "renew", expires
		}
		w.add(o)
	}
}

func generateBatch(w *world, key string, at, lag int64) {
	tree := key + "t"
	expires := at - lag + 3*second
	create := history.Op{F: "create", Type: history.OK, Text: Batch, Invoke: at - 2, Return: at + 1}
	for name, until := range map[string]int64{key: expires, tree + ".batch": at + 3600*second, tree + ".orphan": at + 3600*second} {
		o := create
		if o.Key, o.Value = name, until; name == tree+".batch" {
			o.Names = []string{tree}
		}
		w.add(o)
	}
	revoked := at + 4*second + w.Int63n(second)
	w.add(history.Op{F: "revoke", Key: tree, Type: history.OK, Invoke: revoked - second/20, Return: revoked + second/20})
	for n := range int64(16) {
		o := history.Op{F: "use", Type: history.OK, Invoke: at + (n+1)*second/2}
		o.Return = o.Invoke + second/10
		m, good := o.Invoke+w.Int63n(second/10), int64(1)
		if n%4 == 3 {
			o.F, good = "renew", NotRenewable
		}
		one := func(name string, lives bool) {
			each := o
			if each.Key = name; lives {
				each.Value = good
			}
			w.add(each)
		}
		one(key, m-lag < expires)
		one(tree+".batch", m < revoked)
		one(tree+".orphan", true)
	}
}

// lifeOf a token in a generated history whose renewals all have a known outcome: its expire_time when o
// began, and the last one of all. Zeros where o overlaps a renewal.
func lifeOf(h *history.History, o *history.Op) (now, last, ttl int64) {
	for _, each := range h.Ops {
		switch {
		case each.Key != o.Key:
		case each.F == "create":
			now, last = each.Value, each.Value
			if ttl = 0; each.Values != nil {
				ttl = each.Values[0]
			}
		case each.F == "renew" && each.Type == history.Info:
			return 0, 0, 0
		case each.F == "renew" && each.Value > 0:
			if last = max(last, each.Value); each.Before(o) {
				now = each.Value
			}
		}
	}
	return now, last, ttl
}

func TestTokensThatAreRenewed(t *testing.T) {
	change := func(name, kinds string, fits func(*history.History, *history.Op) bool, apply func(*history.History, *history.Op)) mutation {
		return mutation{name, func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool {
				return o.Type == history.OK && o.F != "create" && o.F != "revoke" && holdsByte(kinds, o.Key[0]) && fits(h, o)
			})
			if o != nil {
				apply(h, o)
			}
			return o != nil
		}}
	}
	refuse := func(_ *history.History, o *history.Op) { o.Value = 0 }
	accept := func(_ *history.History, o *history.Op) { o.F, o.Value = "use", 1 }
	before := func(h *history.History, o *history.Op) bool {
		now, _, _ := lifeOf(h, o)
		return Accepted(o) && o.F == "use" && o.Return < now-early
	}
	long := func(h *history.History, o *history.Op) bool {
		_, last, _ := lifeOf(h, o)
		return last > 0 && !Accepted(o) && o.Invoke > last+2*second
	}
	granted := func(_ *history.History, o *history.Op) bool { return o.F == "renew" && o.Value > 0 }
	tree := func(suffix string) func(*history.History, *history.Op) bool {
		return func(_ *history.History, o *history.Op) bool {
			return o.Key[2:] == suffix && o.Invoke%(20*second) > 6*second
		}
	}
	judged(t, Tokens, generateLives,
		change("early: refused before what the last renewal gave", "rp", before, refuse),
		change("late: accepted after what the last renewal gave", "rp", long, accept),
		change("late: renewed after it had ended", "rp", long, func(h *history.History, o *history.Op) {
			_, _, ttl := lifeOf(h, o)
			o.F, o.Value = "renew", o.Return+ttl-second/10
		}),
		change("late: accepted beyond the longest life", "r", func(_ *history.History, o *history.Op) bool {
			return o.Invoke%(20*second) > 10*second
		}, accept),
		change("a renewal gives too much", "rp", granted, func(_ *history.History, o *history.Op) {
			o.Value = o.Return + 3*second + second/5
		}),
		change("a renewal gives too little", "rp", granted, func(_ *history.History, o *history.Op) { o.Value -= 3 * second / 2 }),
		change("early: a batch token is refused", "b", func(h *history.History, o *history.Op) bool {
			return o.Key[2:] != "t.batch" && before(h, o)
		}, refuse),
		change("late: a batch token is accepted", "b", long, accept),
		change("a batch token is renewed", "b", func(_ *history.History, o *history.Op) bool { return o.Value == NotRenewable },
			func(_ *history.History, o *history.Op) { o.Value = o.Return + second }),
		change("late: a batch token is used after its parent's revocation", "b", tree("t.batch"), accept),
		change("early: a batch token without a parent ends with the tree", "b", tree("t.orphan"), refuse),
	)
}

func holdsByte(text string, b byte) bool {
	for i := range len(text) {
		if text[i] == b {
			return true
		}
	}
	return false
}
