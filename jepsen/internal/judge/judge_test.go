package judge

import (
	"fmt"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// Generated histories come from an atomic model: each operation takes effect at one moment between
// its invocation and its return; some never return and took effect late or not at all. They are right
// by construction. A mutation then makes one thing wrong.

const histories = 1000

// world gives operations their times: moments are distinct, so a model may go through them in order.
type world struct {
	*rand.Rand
	h     *history.History
	clock [5]int64 // of each process
}

func newWorld(seed int64) *world {
	return &world{Rand: rand.New(rand.NewSource(seed)), h: &history.History{}}
}

type moment struct {
	at int64
	op *history.Op
}

// plan makes n operations of five processes and the moment of each.
func (w *world) plan(n int, fill func(*history.Op)) (moments []moment) {
	for range n {
		p := w.Intn(len(w.clock))
		o := &history.Op{Process: p, Type: history.OK}
		o.Invoke = w.clock[p] + 1 + w.Int63n(1000)
		at := o.Invoke + 1 + w.Int63n(1000)
		o.Return = at + 1 + w.Int63n(1000)
		w.clock[p] = o.Return
		fill(o)
		moments = append(moments, moment{at, o})
		w.h.Ops = append(w.h.Ops, o)
	}
	for i := 1; i < len(moments); i++ { // by time
		for j := i; j > 0 && moments[j].at < moments[j-1].at; j-- {
			moments[j], moments[j-1] = moments[j-1], moments[j]
		}
	}
	return moments
}

// forget the outcome of some operations.
func (w *world) forget(o *history.Op) {
	if w.Intn(10) == 0 {
		o.Type, o.Return = history.Info, history.Open
	}
}

// sorted as Read and History give it.
func (w *world) history() *history.History {
	h := &history.History{Ops: w.h.Ops}
	for i := 1; i < len(h.Ops); i++ {
		for j := i; j > 0 && h.Ops[j].Invoke < h.Ops[j-1].Invoke; j-- {
			h.Ops[j], h.Ops[j-1] = h.Ops[j-1], h.Ops[j]
		}
	}
	return h
}

type mutation struct {
	name string
	// apply it, if the history has a place for it.
	apply func(*rand.Rand, *history.History) bool
}

// judged generates histories, and expects the judge to accept each and to refuse each mutation.
func judged(t *testing.T, judge func(*history.History) Verdict, generate func(int64) *history.History, mutations ...mutation) {
	t.Helper()
	t.Parallel()
	applied := make([]int, len(mutations))
	for seed := range int64(histories) {
		if v := judge(generate(seed)); len(v.Anomalies) > 0 {
			t.Fatalf("seed %d: a right history is refused: %s", seed, v.Anomalies[0])
		}
		for i, m := range mutations {
			h := generate(seed)
			if !m.apply(rand.New(rand.NewSource(seed)), h) {
				continue
			}
			applied[i]++
			if v := judge(h); len(v.Anomalies) == 0 {
				t.Errorf("seed %d: mutation %q is accepted", seed, m.name)
				for _, o := range h.Ops {
					t.Log(o)
				}
				t.FailNow()
			}
		}
	}
	for i, m := range mutations {
		if applied[i] < histories/20 {
			t.Errorf("mutation %q was applied to %d histories only", m.name, applied[i])
		}
	}
}

// some operation that fits, by chance; nil if none does.
func some(r *rand.Rand, h *history.History, fits func(*history.Op) bool) *history.Op {
	var fitting []*history.Op
	for _, o := range h.Ops {
		if fits(o) {
			fitting = append(fitting, o)
		}
	}
	if len(fitting) == 0 {
		return nil
	}
	return fitting[r.Intn(len(fitting))]
}

func drop(h *history.History, o *history.Op) {
	for i, each := range h.Ops {
		if each == o {
			h.Ops = append(h.Ops[:i:i], h.Ops[i+1:]...)
			return
		}
	}
}

func isOK(f string) func(*history.Op) bool {
	return func(o *history.Op) bool { return o.F == f && o.Type == history.OK }
}

// alone says whether no other operation was under way: what it did or saw is certain.
func alone(h *history.History, o *history.Op) bool {
	for _, other := range h.Ops {
		if other != o && other.Type == history.OK && other.Invoke <= o.Return && other.Return >= o.Invoke {
			return false
		}
	}
	return true
}

func end(h *history.History) (at int64) {
	for _, o := range h.Ops {
		at = max(at, o.Invoke+2000)
		if o.Return != history.Open {
			at = max(at, o.Return)
		}
	}
	return at
}

func generatePlain(seed int64) *history.History {
	w := newWorld(seed)
	value := int64(0)
	moments := w.plan(40, func(o *history.Op) {
		o.Key, o.F = "v1/x", "read"
		if w.Intn(2) == 0 {
			value++
			o.F, o.Arg = "write", value
		} else if w.Intn(10) == 0 {
			o.F = "delete"
		}
	})
	state := int64(0)
	for _, m := range moments {
		switch m.op.F {
		case "write":
			w.forget(m.op)
			if m.op.Type == history.OK || w.Intn(2) == 0 {
				state = m.op.Arg
			}
		case "delete":
			state = 0
		default:
			m.op.Value = state
		}
	}
	return w.history()
}

// lastWrite is the newest acknowledged change before every later operation.
func readAtEnd(h *history.History, value int64) {
	at := end(h)
	h.Ops = append(h.Ops, &history.Op{Key: "v1/x", F: "read", Type: history.OK, Value: value, Invoke: at + 1, Return: at + 2})
}

func TestRegisterWithoutVersions(t *testing.T) {
	judged(t, Register, generatePlain,
		mutation{"early: read before it was written", func(r *rand.Rand, h *history.History) bool {
			write := some(r, h, isOK("write"))
			read := some(r, h, func(o *history.Op) bool { return o.F == "read" && write != nil && o.Before(write) })
			if read != nil {
				read.Value = write.Arg
			}
			return read != nil
		}},
		mutation{"phantom: read what nobody wrote", func(r *rand.Rand, h *history.History) bool {
			read := some(r, h, isOK("read"))
			if read != nil {
				read.Value = 1000
			}
			return read != nil
		}},
		mutation{"lost: the last acknowledged write is not there", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops,
				&history.Op{Key: "v1/x", F: "write", Type: history.OK, Arg: 500, Invoke: at + 1, Return: at + 2})
			readAtEnd(h, 0)
			return !unknownDelete(h)
		}},
		mutation{"stale: a value that another one replaced", func(r *rand.Rand, h *history.History) bool {
			old := some(r, h, isOK("write"))
			if old == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops,
				&history.Op{Key: "v1/x", F: "write", Type: history.OK, Arg: 500, Invoke: at + 1, Return: at + 2})
			readAtEnd(h, old.Arg)
			return true
		}},
		mutation{"doubled: a write takes effect again", func(r *rand.Rand, h *history.History) bool {
			old := some(r, h, isOK("write"))
			if old == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops,
				&history.Op{Key: "v1/x", F: "write", Type: history.OK, Arg: 501, Invoke: at + 1, Return: at + 2},
				&history.Op{Key: "v1/x", F: "read", Type: history.OK, Value: 501, Invoke: at + 3, Return: at + 4},
				&history.Op{Key: "v1/x", F: "read", Type: history.OK, Value: old.Arg, Invoke: at + 5, Return: at + 6})
			return true
		}},
		mutation{"swapped: two reads that followed each other", swapReads},
	)
}

func unknownDelete(h *history.History) bool {
	return some(rand.New(rand.NewSource(0)), h, func(o *history.Op) bool { return o.F == "delete" && o.Type == history.Info }) != nil
}

// swapReads exchanges what two reads saw that lie around an acknowledged write.
func swapReads(r *rand.Rand, h *history.History) bool {
	write := some(r, h, func(o *history.Op) bool {
		return o.F == "write" && o.Type == history.OK && alone(h, o)
	})
	if write == nil {
		return false
	}
	before := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Before(write) })
	after := some(r, h, func(o *history.Op) bool { return o.F == "read" && write.Before(o) && o.Value == write.Arg })
	if before == nil || after == nil {
		return false
	}
	before.Value, after.Value = after.Value, before.Value
	return true
}

func generateVersioned(seed int64) *history.History {
	w := newWorld(seed)
	value := int64(0)
	moments := w.plan(25, func(o *history.Op) {
		o.Key = "v2/x"
		o.F = []string{"write", "write", "read", "read", "readv", "versions", "patch", "delete", "undelete", "destroy"}[w.Intn(10)]
		if o.F == "write" || o.F == "patch" {
			value++
			o.Arg = value
		}
	})
	var values []int64
	var gone []bool
	var destroyed []bool
	for _, m := range moments {
		o, newest := m.op, int64(len(values))
		switch o.F {
		case "write", "patch":
			cas := newest
			if w.Intn(4) == 0 {
				cas = max(0, newest-1)
			}
			o.CAS = &cas
			w.forget(o)
			happens := o.Type == history.OK || w.Intn(2) == 0
			live := newest > 0 && !gone[newest-1] && !destroyed[newest-1]
			if happens && cas == newest && (o.F == "write" || live) {
				values, gone, destroyed = append(values, o.Arg), append(gone, false), append(destroyed, false)
				if o.Type == history.OK {
					o.Version = newest + 1
				}
			}
		case "delete":
			if newest > 0 {
				gone[newest-1] = true
			}
		case "undelete", "destroy":
			if o.Arg = newest; newest > 0 && o.F == "destroy" {
				destroyed[newest-1] = true
			} else if newest > 0 {
				gone[newest-1] = false
			}
		case "versions":
			o.Version, o.Arg = newest, newest
		default:
			at := newest
			if o.F == "readv" {
				o.Arg = 1 + w.Int63n(newest+1)
				at = o.Arg
			}
			if at > 0 && at <= newest {
				o.Version = at
				if !gone[at-1] && !destroyed[at-1] {
					o.Value = values[at-1]
				}
			}
		}
	}
	return w.history()
}

func TestRegisterWithVersions(t *testing.T) {
	judged(t, Register, generateVersioned,
		mutation{"a version is left out", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK && o.Version > 0 })
			if o != nil {
				o.Version++
			}
			return o != nil
		}},
		mutation{"a version is given twice", func(r *rand.Rand, h *history.History) bool {
			made := func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK && o.Version > 0 }
			a, b := some(r, h, made), some(r, h, made)
			if a == nil || a == b {
				return false
			}
			a.Version = b.Version
			return true
		}},
		mutation{"a refused check-and-set was right", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK && o.Version > 0 })
			if o == nil {
				return false
			}
			seen := some(r, h, func(p *history.Op) bool { return p.F == "read" && p.Version == o.Version && p.Value == o.Arg })
			o.Version = 0
			return seen != nil
		}},
		mutation{"an old version has another value", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "readv" && o.Value > 0 })
			if o != nil {
				o.Value = 1000
			}
			return o != nil
		}},
		mutation{"the list of versions has a gap", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "versions" && o.Arg > 0 })
			if o != nil {
				o.Arg--
			}
			return o != nil
		}},
		mutation{"the list of versions lacks the newest", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK && o.Version > 0 })
			if o == nil {
				return false
			}
			at, newest := end(h), o.Version-1
			h.Ops = append(h.Ops, &history.Op{Key: "v2/x", F: "versions", Type: history.OK, Version: newest, Arg: newest, Invoke: at + 1, Return: at + 2})
			return true
		}},
		mutation{"stale: a read shows the version before", func(r *rand.Rand, h *history.History) bool {
			at, newest := end(h), int64(0)
			for _, o := range h.Ops {
				if o.Type == history.OK {
					newest = max(newest, o.Version)
				}
			}
			h.Ops = append(h.Ops, &history.Op{Key: "v2/x", F: "read", Type: history.OK, Version: newest - 1, Value: 0, Invoke: at + 1, Return: at + 2})
			return newest > 1
		}},
		mutation{"destroyed and read", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "write" && o.Type == history.OK && o.Version > 0 })
			if o == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops,
				&history.Op{Key: "v2/x", F: "destroy", Type: history.OK, Arg: o.Version, Invoke: at + 1, Return: at + 2},
				&history.Op{Key: "v2/x", F: "readv", Type: history.OK, Arg: o.Version, Version: o.Version, Value: o.Arg, Invoke: at + 3, Return: at + 4})
			return true
		}},
	)
}

func generateLists(seed int64) *history.History {
	w := newWorld(seed)
	value := int64(0)
	moments := w.plan(60, func(o *history.Op) {
		o.Key, o.F = fmt.Sprintf("list%d", w.Intn(4)), "read"
		if w.Intn(2) == 0 {
			value++
			o.F, o.Arg = "append", value
		}
	})
	lists := map[string][]int64{}
	for _, m := range moments {
		o := m.op
		if o.F == "read" {
			o.Values = append([]int64(nil), lists[o.Key]...)
			continue
		}
		w.forget(o)
		if o.Type == history.OK && w.Intn(10) == 0 {
			o.Type = history.Fail
			continue
		}
		if o.Type == history.OK || w.Intn(2) == 0 {
			lists[o.Key] = append(lists[o.Key], o.Arg)
		}
	}
	h := w.history()
	at := end(h)
	for i := range 4 {
		key := fmt.Sprintf("list%d", i)
		h.Ops = append(h.Ops, &history.Op{Key: key, F: "read", Type: history.OK, Values: append([]int64(nil), lists[key]...), Invoke: at + 1, Return: at + 2})
	}
	return h
}

func longRead(least int) func(*history.Op) bool {
	return func(o *history.Op) bool { return o.F == "read" && len(o.Values) >= least }
}

func TestAppend(t *testing.T) {
	judged(t, Append, generateLists,
		mutation{"lost: an acknowledged element is in no read", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, isOK("append"))
			if o == nil {
				return false
			}
			for _, read := range h.Ops {
				if read.F == "read" && read.Key == o.Key {
					read.Values = without(read.Values, o.Arg)
				}
			}
			return true
		}},
		mutation{"doubled: an element is twice in a read", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, longRead(2))
			if o != nil {
				o.Values = append(o.Values, o.Values[0])
			}
			return o != nil
		}},
		mutation{"stale: a later read is shorter", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, longRead(2))
			if o == nil {
				return false
			}
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: o.Key, F: "read", Type: history.OK, Values: o.Values[:len(o.Values)-1], Invoke: at + 1, Return: at + 2})
			return true
		}},
		mutation{"swapped: two elements of one read", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, longRead(2))
			if o == nil {
				return false
			}
			shared := some(r, h, func(p *history.Op) bool { return p != o && p.F == "read" && p.Key == o.Key && len(p.Values) >= 2 })
			o.Values = append([]int64(nil), o.Values...)
			o.Values[0], o.Values[1] = o.Values[1], o.Values[0]
			return shared != nil
		}},
		mutation{"early: an element is read before its append began", func(r *rand.Rand, h *history.History) bool {
			last := some(r, h, longRead(1))
			if last == nil {
				return false
			}
			first := h.Ops[0]
			h.Ops = append(h.Ops, &history.Op{Key: last.Key, F: "read", Type: history.OK, Values: last.Values, Invoke: first.Invoke - 2, Return: first.Invoke - 1})
			return true
		}},
		mutation{"late: an element stands behind one that came after it", func(r *rand.Rand, h *history.History) bool {
			a := some(r, h, isOK("append"))
			if a == nil {
				return false
			}
			b := some(r, h, func(o *history.Op) bool {
				return o.F == "append" && o.Type == history.OK && o.Key == a.Key && a.Before(o)
			})
			if b == nil {
				return false
			}
			for _, o := range h.Ops {
				if o.F == "read" && o.Key == a.Key {
					o.Values = exchanged(o.Values, a.Arg, b.Arg)
				}
			}
			return true
		}},
		mutation{"G1a: a refused element is read", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "append" && o.Type == history.OK })
			if o == nil {
				return false
			}
			seen := some(r, h, func(p *history.Op) bool { return p.F == "read" && p.Key == o.Key && holds(p.Values, o.Arg) })
			o.Type = history.Fail
			return seen != nil
		}},
		mutation{"two lists disagree about time", crossKeys},
	)
}

// crossKeys: a reader sees the second of two appends to different lists, and then not the first,
// though it was acknowledged before. Each list by itself is right when times are left out.
func crossKeys(r *rand.Rand, h *history.History) bool {
	at := end(h)
	add := func(f, key string, arg int64, values []int64, from int64) {
		h.Ops = append(h.Ops, &history.Op{Process: 9, Key: key, F: f, Type: history.OK, Arg: arg, Values: values, Invoke: at + from, Return: at + from + 1})
	}
	add("append", "a", 901, nil, 1)
	add("append", "b", 902, nil, 3)
	add("read", "b", 0, []int64{902}, 5)
	add("read", "a", 0, nil, 7)
	return true
}

func without(values []int64, value int64) (kept []int64) {
	for _, v := range values {
		if v != value {
			kept = append(kept, v)
		}
	}
	return kept
}

func exchanged(values []int64, a, b int64) []int64 {
	out := append([]int64(nil), values...)
	for i, v := range out {
		if v == a && holds(values, b) {
			out[i] = b
		} else if v == b {
			out[i] = a
		}
	}
	return out
}

func holds(values []int64, value int64) bool {
	for _, v := range values {
		if v == value {
			return true
		}
	}
	return false
}
