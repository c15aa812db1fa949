package judge

import (
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

func generateMove(seed int64) *history.History {
	w := newWorld(seed)
	const secret = 77
	w.h.Ops = append(w.h.Ops, &history.Op{F: "make", Key: "m", Type: history.OK, Arg: 1, Version: secret, Invoke: -2, Return: -1})
	moments := w.plan(50, func(o *history.Op) {
		o.Key, o.F, o.Arg = "m", "read", 1+w.Int63n(2)
		if w.Intn(3) == 0 {
			o.F = "move"
		}
	})
	place := int64(1)
	for _, m := range moments {
		o := m.op
		if o.F == "read" {
			if place == o.Arg {
				o.Value, o.Version = 1, secret
			}
			continue
		}
		w.forget(o)
		if o.Type == history.Info && w.Intn(2) == 0 {
			continue
		}
		if place != o.Arg && o.Type == history.OK {
			o.Value = 1
		}
		place = o.Arg
	}
	return w.history()
}

// movedAtEnd adds a move to a place whose reply was lost, then reads of that place.
func movedAtEnd(h *history.History, to int64, reads ...int64) {
	at := end(h)
	h.Ops = append(h.Ops, &history.Op{Key: "m", F: "move", Type: history.Info, Arg: to, Invoke: at + 1, Return: history.Open})
	for i, value := range reads {
		from := at + 3 + 2*int64(i)
		o := &history.Op{Key: "m", F: "read", Type: history.OK, Arg: to, Value: value, Invoke: from, Return: from + 1}
		if value == 1 {
			o.Version = 77
		}
		h.Ops = append(h.Ops, o)
	}
}

func TestMove(t *testing.T) {
	certain := func(h *history.History) bool {
		for _, o := range h.Ops {
			if o.Type == history.Info {
				return false // it may move the mount at any time
			}
		}
		return true
	}
	judged(t, Move, generateMove,
		mutation{"doubled: the secret is at both places", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool {
				return o.F == "read" && o.Value == 0 && certain(h) && alone(h, o)
			})
			if o != nil {
				o.Value, o.Version = 1, 77
			}
			return o != nil
		}},
		mutation{"lost: the secret is at no place", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool {
				return o.F == "read" && o.Value == 1 && certain(h) && alone(h, o)
			})
			if o != nil {
				o.Value, o.Version = 0, 0
			}
			return o != nil
		}},
		mutation{"stale: a read does not see a move that another one saw", func(_ *rand.Rand, h *history.History) bool {
			if !certain(h) {
				return false
			}
			at := end(h)
			seen := &history.Op{Key: "m", F: "read", Type: history.OK, Arg: 1, Value: 1, Version: 77, Invoke: at + 1, Return: at + 2}
			late := &history.Op{Key: "m", F: "read", Type: history.OK, Arg: 2, Value: 1, Version: 77, Invoke: at + 3, Return: at + 4}
			h.Ops = append(h.Ops, seen, late)
			return true
		}},
		mutation{"late: an open move takes effect twice", func(_ *rand.Rand, h *history.History) bool {
			if !certain(h) {
				return false
			}
			place := int64(1)
			for _, o := range h.Ops {
				if o.F == "move" && o.Value == 1 {
					place = 3 - place
				}
			}
			movedAtEnd(h, 3-place, 1, 0, 1)
			return true
		}},
		mutation{"refused for nothing", func(_ *rand.Rand, h *history.History) bool {
			if !certain(h) {
				return false
			}
			at := end(h)
			for place := range int64(2) { // one of the two must be done
				from := at + 1 + 2*place
				h.Ops = append(h.Ops, &history.Op{Key: "m", F: "move", Type: history.OK, Arg: place + 1, Invoke: from, Return: from + 1})
			}
			return true
		}},
		mutation{"swapped: the secret of another mount", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.F == "read" && o.Value == 1 })
			if o != nil {
				o.Version = 78
			}
			return o != nil
		}},
	)
}
