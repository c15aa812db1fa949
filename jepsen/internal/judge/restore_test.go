package judge

import (
	"math"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generateRestore: one round, which may get a snapshot of an earlier one.
func generateRestore(seed int64) *history.History {
	w := newWorld(seed)
	value, saves := int64(0), 0
	var snapshots []int64
	moments := w.plan(24, func(o *history.Op) {
		o.F, o.Version = "read", w.Int63n(RestoreKeys)
		switch dice := w.Intn(20); {
		case dice < 9:
			value++
			o.F, o.Arg = "write", value
		case dice < 11 && saves < savesMax:
			saves++
			o.F, o.Arg = "save", int64(saves)
			snapshots = append(snapshots, o.Arg)
		case dice < 13 && len(snapshots) > 0:
			o.F = "restore"
		}
	})
	var now [RestoreKeys]int64
	saved := map[int64][RestoreKeys]int64{99: {}} // one of an earlier round
	for _, m := range moments {
		o := m.op
		o.Key = "r"
		switch o.F {
		case "write":
			w.forget(o)
			if o.Type == history.OK || w.Intn(2) == 0 {
				now[o.Version] = o.Arg
			}
		case "save":
			saved[o.Arg] = now
		case "restore":
			if o.Arg = 1 + w.Int63n(int64(saves)); w.Intn(5) == 0 {
				o.Arg = 99
			}
			content, is := saved[o.Arg]
			if !is { // not saved yet
				o.Arg, content = 99, saved[99]
			}
			w.forget(o)
			if o.Type == history.OK || w.Intn(2) == 0 {
				now = content
			}
		default:
			o.Value = now[o.Version]
		}
	}
	return w.history()
}

func TestRestore(t *testing.T) {
	// at the end: some operations one after the other, in a round of their own
	add := func(h *history.History, ops ...history.Op) bool {
		at := end(h)
		for i := range ops {
			o := &ops[i]
			o.Key, o.Type, o.Invoke, o.Return = "x", history.OK, at+int64(2*i)+1, at+int64(2*i)+2
			h.Ops = append(h.Ops, o)
		}
		for _, o := range h.Ops { // else it might happen here
			if o.F == "restore" && o.Type == history.Info {
				o.Type = history.Fail
			}
		}
		return true
	}
	write := func(i, value int64) history.Op { return history.Op{F: "write", Version: i, Arg: value} }
	read := func(i, value int64) history.Op { return history.Op{F: "read", Version: i, Value: value} }
	save, restore := history.Op{F: "save", Arg: 50}, history.Op{F: "restore", Arg: 50}
	judged(t, Restore, generateRestore,
		mutation{"lost: a value that the snapshot has", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), save, write(0, 901), restore, read(0, 0))
		}},
		mutation{"crossed: a value that the snapshot has not", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), save, write(1, 901), restore, read(1, 901))
		}},
		mutation{"torn: one value of the snapshot, one of before", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), write(1, 901), save, write(0, 902), write(1, 903), restore, read(0, 900), read(1, 903))
		}},
		mutation{"late: the restore happens after its end", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), save, write(0, 901), restore, read(0, 901), read(0, 900))
		}},
		mutation{"stale: a write after the restore is not there", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), save, restore, write(0, 901), read(0, 900))
		}},
		mutation{"early: in the snapshot before it was written", func(_ *rand.Rand, h *history.History) bool {
			return add(h, save, write(0, 900), restore, read(0, 900))
		}},
		mutation{"a snapshot of another round has something of this one", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), history.Op{F: "restore", Arg: 98}, read(0, 900))
		}},
		mutation{"phantom: nobody wrote it", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, isOK("read"))
			if o != nil {
				o.Value = 1000
			}
			return o != nil
		}},
		mutation{"it said that nothing was changed", func(_ *rand.Rand, h *history.History) bool {
			good := add(h, write(0, 900), save, write(0, 901), restore, read(0, 900))
			for _, o := range h.Ops {
				if o.Key == "x" && o.F == "restore" {
					o.Type = history.Fail
				}
			}
			return good
		}},
		mutation{"swapped: two values of one snapshot", func(_ *rand.Rand, h *history.History) bool {
			return add(h, write(0, 900), write(1, 901), save, write(0, 0), restore, read(0, 901), read(1, 900))
		}},
	)
}

// TestAWriteOfAnEarlierRoundMayComeLate: only of the value that rounds share, and only if its outcome is unknown.
func TestAWriteOfAnEarlierRoundMayComeLate(t *testing.T) {
	late := func(version int64, outcome history.Kind) Verdict {
		return Restore(&history.History{Ops: []*history.Op{
			{Process: 1, F: "write", Key: "r1", Version: version, Arg: 1, Type: outcome, Invoke: 1, Return: math.MaxInt64},
			{Process: 2, F: "write", Key: "r2", Version: version, Arg: 2, Type: history.OK, Invoke: 10, Return: 11},
			{Process: 2, F: "read", Key: "r2", Version: version, Value: 2, Type: history.OK, Invoke: 12, Return: 13},
			{Process: 2, F: "read", Key: "r2", Version: version, Value: 0, Type: history.OK, Invoke: 14, Return: 15},
		}})
	}
	if v := late(restoreShared, history.Info); len(v.Anomalies) > 0 {
		t.Errorf("a late write is refused: %v", v.Anomalies)
	}
	if v := late(restoreShared, history.Fail); len(v.Anomalies) == 0 {
		t.Error("a write that never happened explains a read")
	}
	if v := late(0, history.Info); len(v.Anomalies) == 0 {
		t.Error("a write of a value of its own round explains a read of another")
	}
}
