package judge

import (
	"fmt"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

type watchedModel struct {
	value, version int64
	indexes        []int64 // so far
}

// generateWatch: two things, and the list of both.
func generateWatch(seed int64) *history.History {
	w := newWorld(seed)
	value := int64(0)
	moments := w.plan(70, func(o *history.Op) {
		o.Key, o.F = fmt.Sprintf("w%d", w.Intn(2)), "watch"
		switch dice := w.Intn(10); {
		case dice < 4:
			value++
			o.F, o.Arg = "set", value
		case dice < 5:
			o.F = "delete"
		case dice < 6:
			o.F, o.Key = "list", EveryPolicy
		}
	})
	things := map[string]*watchedModel{"w0": {}, "w1": {}, EveryPolicy: {}}
	newest := int64(1)
	for _, m := range moments {
		o, t, all := m.op, things[m.op.Key], things[EveryPolicy]
		if o.F == "set" || o.F == "delete" {
			w.forget(o)
		}
		happens := o.Type == history.OK || w.Intn(2) == 0
		switch {
		case o.F == "set" && happens:
			newest += 1 + w.Int63n(3)
			t.value, t.version = o.Arg, newest
			if o.Type == history.OK {
				o.Version = newest
			}
		case o.F == "delete" && t.value == 0:
			if o.Type == history.OK {
				o.Type = history.Fail
			}
		case o.F == "delete" && happens:
			newest += 1 + w.Int63n(3)
			t.value = 0
		case o.F == "watch":
			if o.Version = t.version; t.value == 0 {
				o.Version = newest
			}
			o.Value = t.value
			waitFor(w, o, t)
		case o.F == "list":
			o.Version = newest
			for _, name := range []string{"w0", "w1"} {
				if things[name].value != 0 {
					o.Names, o.Values = append(o.Names, name), append(o.Values, things[name].version)
				}
			}
			waitFor(w, o, all)
		}
	}
	return w.history()
}

// waitFor some index that was returned before.
func waitFor(w *world, o *history.Op, t *watchedModel) {
	if len(t.indexes) > 0 && w.Intn(2) == 0 {
		given := t.indexes[w.Intn(len(t.indexes))]
		o.CAS = &given
	}
	t.indexes = append(t.indexes, o.Version)
}

// watchMutations: the same for generated and for real histories.
func watchMutations() []mutation {
	shown := func(o *history.Op) bool { return o.F == "watch" && o.Type == history.OK && o.Value != 0 }
	made := func(o *history.Op) bool { return o.F == "set" && o.Type == history.OK }
	number := func(n int64) *int64 { return &n }
	add := func(h *history.History, ops ...*history.Op) bool {
		at := end(h)
		for _, o := range ops {
			o.Type, o.Invoke, o.Return = history.OK, o.Invoke+at, o.Return+at
			h.Ops = append(h.Ops, o)
		}
		return true
	}
	return []mutation{
		{"a change ends no wait", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "watch", Version: 900, Invoke: 1, Return: 2},
				&history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 4, Return: 5},
				&history.Op{Key: "x", F: "watch", CAS: number(900), Version: 901, Value: 900, Invoke: 3, Return: 6 + wakeWithin})
		}},
		{"a deletion ends no wait", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 1, Return: 2},
				&history.Op{Key: "x", F: "delete", Invoke: 4, Return: 5},
				&history.Op{Key: "x", F: "watch", CAS: number(901), Version: 903, Invoke: 3, Return: 6 + wakeWithin})
		}},
		{"a change wakes no list", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 4, Return: 5},
				&history.Op{Key: EveryPolicy, F: "list", CAS: number(900), Version: 901, Names: []string{"x"}, Values: []int64{901}, Invoke: 3, Return: 6 + wakeWithin})
		}},
		{"a wait gets no answer", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: "w0", F: "watch", Type: history.Info, Text: Unanswered, Value: at + 2*wakeWithin, Invoke: at, Return: history.Open})
			return true
		}},
		{"index back: below the one waited for", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return (o.F == "watch" || o.F == "list") && o.Type == history.OK })
			if o != nil {
				o.CAS = number(o.Version + 1)
			}
			return o != nil
		}},
		{"stale: an older result after a newer one", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, shown)
			b := some(r, h, func(o *history.Op) bool { return a != nil && shown(o) && o.Key == a.Key && o.Version > a.Version })
			if b == nil {
				return false
			}
			return add(h, &history.Op{Key: a.Key, F: "watch", Version: a.Version, Value: a.Value, Invoke: 1, Return: 2})
		}},
		{"stale: an acknowledged change is not there", func(r *rand.Rand, h *history.History) bool {
			s := some(r, h, made)
			older := some(r, h, func(o *history.Op) bool { return s != nil && made(o) && o.Key == s.Key && o.Version < s.Version })
			if older == nil {
				return false
			}
			return add(h, &history.Op{Key: s.Key, F: "watch", Version: older.Version, Value: older.Arg, Invoke: 1, Return: 2})
		}},
		{"stale: what was deleted is shown", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 1, Return: 2},
				&history.Op{Key: "x", F: "delete", Invoke: 3, Return: 4},
				&history.Op{Key: "x", F: "watch", Version: 901, Value: 900, Invoke: 5, Return: 6})
		}},
		{"lost: a value is missing without a deletion", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 1, Return: 2},
				&history.Op{Key: "x", F: "watch", Version: 903, Invoke: 3, Return: 4})
		}},
		{"swapped: two values of two versions", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, shown)
			b := some(r, h, func(o *history.Op) bool { return a != nil && shown(o) && o.Key == a.Key && o.Version != a.Version })
			if b == nil {
				return false
			}
			told := some(r, h, func(o *history.Op) bool { return made(o) && (o.Arg == a.Value || o.Arg == b.Value) })
			a.Value, b.Value = b.Value, a.Value
			return told != nil
		}},
		{"early: seen before it was written", func(r *rand.Rand, h *history.History) bool {
			s := some(r, h, made)
			o := some(r, h, func(o *history.Op) bool { return s != nil && shown(o) && o.Key == s.Key && o.Before(s) })
			if o != nil {
				o.Value, o.Version = s.Arg, s.Version
			}
			return o != nil
		}},
		{"phantom: no client wrote the value", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, shown)
			if o != nil {
				o.Value = 1000
			}
			return o != nil
		}},
		{"a later change has a lower version", func(r *rand.Rand, h *history.History) bool {
			s := some(r, h, made)
			if s == nil {
				return false
			}
			return add(h, &history.Op{Key: s.Key, F: "set", Arg: 1000, Version: s.Version - 1, Invoke: 1, Return: 2})
		}},
		{"torn: the list has an older version of one", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 1, Return: 2},
				&history.Op{Key: "x", F: "set", Arg: 901, Version: 902, Invoke: 3, Return: history.Open / 2},
				&history.Op{Key: EveryPolicy, F: "list", Version: 902, Names: []string{"x"}, Values: []int64{901}, Invoke: 5, Return: 6})
		}},
		{"torn: the list lacks one", func(r *rand.Rand, h *history.History) bool {
			return add(h, &history.Op{Key: "x", F: "set", Arg: 900, Version: 901, Invoke: 1, Return: 2},
				&history.Op{Key: EveryPolicy, F: "list", Version: 902, Invoke: 3, Return: 4})
		}},
	}
}

func TestWatch(t *testing.T) {
	judged(t, Watch, generateWatch, watchMutations()...)
}

func TestTokensAreInNoListOfPolicies(t *testing.T) {
	after := int64(1)
	h := &history.History{Ops: []*history.Op{
		{F: "set", Key: EveryToken, Type: history.OK, Arg: 7, Version: 5, Invoke: 1, Return: 2},
		{F: "list", Key: EveryPolicy, Type: history.OK, CAS: &after, Version: 1, Invoke: 3, Return: 10 * wakeWithin},
	}}
	if v := Watch(h); len(v.Anomalies) > 0 {
		t.Errorf("a list of policies without a change of a token is refused: %s", v.Anomalies[0])
	}
	h.Ops[1] = &history.Op{F: "watch", Key: EveryToken, Type: history.OK, CAS: &after, Value: 7, Version: 5, Invoke: 3, Return: 10 * wakeWithin}
	if v := Watch(h); len(v.Anomalies) == 0 {
		t.Error("a waiter that a change of a token does not wake is accepted")
	}
}
