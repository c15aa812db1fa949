package judge

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generatePair: lists on the first cluster up to a moment, then on the second. In a forced failover
// what came after an earlier moment is lost, and only what came before that may be confirmed.
func generatePair(seed int64) *history.History {
	w := newWorld(seed)
	planned := seed%2 == 0
	value := int64(0)
	moments := w.plan(80, func(o *history.Op) {
		o.Key, o.F = fmt.Sprintf("list%d", w.Intn(3)), "read"
		switch dice := w.Intn(10); {
		case dice < 5:
			value++
			o.F, o.Arg = "append", value
		case dice < 6:
			o.F, o.Key = "role", ""
		}
	})
	over := len(moments)/3 + w.Intn(len(moments)/3)
	kept := over
	if !planned {
		kept -= w.Intn(10)
	}
	lists, shipped := map[string][]int64{}, map[string][]int64{}
	failover := &history.Op{F: "failover", Type: history.OK, Text: Forced, Invoke: moments[over-1].at, Return: moments[over].at}
	if planned {
		failover.Text = Planned
	}
	for i, m := range moments {
		if i == kept {
			for key, list := range lists {
				shipped[key] = append([]int64(nil), list...)
			}
		}
		if i == over {
			lists = shipped
		}
		pairOp(w, m.op, lists, i >= over, i < kept)
	}
	h := w.history()
	h.Ops = append(h.Ops, failover)
	at := end(h)
	for i := range 3 {
		key := fmt.Sprintf("list%d", i)
		h.Ops = append(h.Ops, &history.Op{Key: key, F: "read", Type: history.OK, Text: Second, Final: true, Values: append([]int64(nil), lists[key]...), Invoke: at + 1, Return: at + 2})
	}
	return h
}

func pairOp(w *world, o *history.Op, lists map[string][]int64, over, kept bool) {
	if o.Text = First; over {
		o.Text = Second
	}
	switch o.F {
	case "role":
		o.Names, o.Arg = []string{Writes}, 1
		if over {
			o.Arg = 2
		}
	case "read":
		o.Values = append([]int64(nil), lists[o.Key]...)
	case "append":
		w.forget(o)
		if o.Type == history.OK || w.Intn(2) == 0 {
			lists[o.Key] = append(lists[o.Key], o.Arg)
			if o.Type == history.OK && kept && w.Intn(2) == 0 {
				o.Value = Confirmed
			}
		}
	}
}

func failoverOf(h *history.History) *history.Op {
	return some(rand.New(rand.NewSource(0)), h, func(o *history.Op) bool { return o.F == "failover" })
}

// shippedAppend is one on the first cluster that the second one shows.
func shippedAppend(r *rand.Rand, h *history.History, fits func(*history.Op) bool) *history.Op {
	there := map[element]bool{}
	for _, o := range h.Ops {
		for _, value := range o.Values {
			if o.F == "read" && o.Text == Second {
				there[element{o.Key, value}] = true
			}
		}
	}
	return some(r, h, func(a *history.Op) bool {
		return a.F == "append" && a.Text == First && there[element{a.Key, a.Arg}] && fits(a)
	})
}

// forgetAppend on the second cluster.
func forgetAppend(h *history.History, a *history.Op) {
	for _, o := range h.Ops {
		if o.F == "read" && o.Text == Second && o.Key == a.Key {
			o.Values = without(o.Values, a.Arg)
		}
	}
}

func acknowledged(o *history.Op) bool { return o.Type == history.OK }

// pairMutations fit any failover.
func pairMutations() []mutation {
	return []mutation{
		{"lost: it was confirmed", func(r *rand.Rand, h *history.History) bool {
			a := shippedAppend(r, h, func(o *history.Op) bool { return o.Value == Confirmed })
			if a != nil {
				forgetAppend(h, a)
			}
			return a != nil
		}},
		{"gap: lost, and a later one is there", func(r *rand.Rand, h *history.History) bool {
			b := shippedAppend(r, h, func(*history.Op) bool { return true })
			a := shippedAppend(r, h, func(o *history.Op) bool { return acknowledged(o) && b != nil && o.Before(b) })
			if a != nil {
				forgetAppend(h, a)
			}
			return a != nil
		}},
		{"early: on the second before it was written", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Text == Second })
			a := some(r, h, func(a *history.Op) bool { return o != nil && a.F == "append" && a.Key == o.Key && o.Before(a) })
			if a != nil {
				o.Values = append(o.Values, a.Arg)
			}
			return a != nil
		}},
		{"late: an append of the first is behind one of the second", func(r *rand.Rand, h *history.History) bool {
			a := shippedAppend(r, h, acknowledged)
			if a == nil {
				return false
			}
			at := end(h)
			add := &history.Op{Key: a.Key, F: "append", Type: history.OK, Text: Second, Arg: 900, Invoke: at + 1, Return: at + 2}
			read := &history.Op{Key: a.Key, F: "read", Type: history.OK, Text: Second, Invoke: at + 3, Return: at + 4}
			last := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Final && o.Key == a.Key })
			if last == nil {
				return false
			}
			read.Values = append(append(without(last.Values, a.Arg), 900), a.Arg)
			h.Ops = append(h.Ops, add, read)
			return true
		}},
		{"doubled: applied twice", func(r *rand.Rand, h *history.History) bool {
			a := shippedAppend(r, h, acknowledged)
			o := some(r, h, func(o *history.Op) bool {
				return a != nil && o.F == "read" && o.Text == Second && o.Key == a.Key && holds(o.Values, a.Arg)
			})
			if o != nil {
				o.Values = append(o.Values, a.Arg)
			}
			return o != nil
		}},
		{"stale: the second forgets what it had", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Text == Second && len(o.Values) > 0 })
			if o == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: o.Key, F: "read", Type: history.OK, Text: Second, Values: o.Values[:len(o.Values)-1], Invoke: at + 1, Return: at + 2})
			return true
		}},
		{"swapped: the lists of both begin in another order", func(r *rand.Rand, h *history.History) bool {
			a := shippedAppend(r, h, acknowledged)
			b := shippedAppend(r, h, func(o *history.Op) bool { return a != nil && o.Key == a.Key && o != a })
			if b == nil {
				return false
			}
			seen := some(r, h, func(o *history.Op) bool {
				return o.F == "read" && o.Text == First && o.Key == a.Key && holds(o.Values, a.Arg) && holds(o.Values, b.Arg)
			})
			for _, o := range h.Ops {
				if o.F == "read" && o.Text == Second && o.Key == a.Key {
					o.Values = exchanged(o.Values, a.Arg, b.Arg)
				}
			}
			return seen != nil
		}},
		{"two writers of one epoch", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return isOK("role")(o) && slices.Contains(o.Names, Writes) })
			if o == nil {
				return false
			}
			other := *o
			if other.Text = First; o.Text == First {
				other.Text = Second
			}
			h.Ops = append(h.Ops, &other)
			return true
		}},
		{"the states diverged", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, isOK("role"))
			if o != nil {
				o.Names = append(o.Names, Diverged)
			}
			return o != nil
		}},
	}
}

func TestDR(t *testing.T) {
	planned := []mutation{
		{"lost in a planned failover", func(r *rand.Rand, h *history.History) bool {
			a := shippedAppend(r, h, acknowledged)
			if a == nil || failoverOf(h).Text != Planned {
				return false
			}
			forgetAppend(h, a)
			return true
		}},
		{"the former primary writes on", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: "list0", F: "append", Type: history.OK, Text: First, Arg: 900, Invoke: at + 1, Return: at + 2})
			return failoverOf(h).Text == Planned
		}},
	}
	judged(t, DR, generatePair, append(pairMutations(), planned...)...)
}
