package judge

import (
	"fmt"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generateAudit: requests, some of them slow; the trails of two nodes; what has taken effect.
func generateAudit(seed int64) *history.History {
	w := newWorld(seed)
	count := 0
	moments := w.plan(30, func(o *history.Op) {
		count++
		if o.F = "write"; w.Intn(2) == 0 {
			o.F = "read"
		}
		o.Key = fmt.Sprintf("%s%d", o.F, count)
	})
	h := w.history()
	at := end(h)
	list := &history.Op{F: "list", Type: history.OK, Invoke: at + 3*int64(triedAgain), Return: at + 3*int64(triedAgain)}
	for _, m := range moments {
		o := m.op
		names := []string{"request a" + o.Key, "response a" + o.Key}
		if w.Intn(3) == 0 { // so slow that a second node may have tried it again
			o.Return += 2 * int64(triedAgain)
			w.forget(o)
			if w.Intn(3) == 0 {
				h.Ops = append(h.Ops, &history.Op{F: "trail", Key: o.Key, Node: "node2", Type: history.OK, Names: []string{"request b" + o.Key}})
			}
		}
		happened := o.Type == history.OK || w.Intn(2) == 0
		if o.F == "write" && happened {
			list.Names = append(list.Names, o.Key)
		}
		if o.Type == history.Info {
			names = names[:1]
		}
		if happened {
			h.Ops = append(h.Ops, &history.Op{F: "trail", Key: o.Key, Node: "node1", Type: history.OK, Names: names})
		}
	}
	h.Ops = append(h.Ops, list)
	return h
}

func TestAudit(t *testing.T) {
	trailOf := func(h *history.History, key string) *history.Op {
		for _, o := range h.Ops {
			if o.F == "trail" && o.Key == key && o.Node == "node1" {
				return o
			}
		}
		return nil
	}
	answered := func(o *history.Op) bool { return (o.F == "write" || o.F == "read") && o.Type == history.OK }
	judged(t, Audit, generateAudit,
		mutation{"lost: the record of a reply", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, answered)
			trail := trailOf(h, o.Key)
			trail.Names = trail.Names[:1]
			return true
		}},
		mutation{"lost: the record of a request", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, answered)
			trail := trailOf(h, o.Key)
			trail.Names = trail.Names[1:]
			return true
		}},
		mutation{"swapped: the reply of another request", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, answered)
			trailOf(h, o.Key).Names[1] = "response of-another"
			return true
		}},
		mutation{"early: an effect without a record", func(r *rand.Rand, h *history.History) bool {
			h.Ops = append(h.Ops, &history.Op{F: "write", Key: "w", Type: history.Info, Invoke: 1, Return: history.Open},
				&history.Op{F: "list", Type: history.OK, Names: []string{"w"}, Invoke: end(h), Return: end(h) + 1})
			return true
		}},
		mutation{"doubled: a node has a record twice", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, answered)
			trail := trailOf(h, o.Key)
			trail.Names = append(trail.Names, trail.Names[1])
			return true
		}},
		mutation{"cut off: the reply was recorded", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, answered)
			o.Type, o.Return, o.Error = history.Info, history.Open, "unexpected EOF"
			return true
		}},
		mutation{"doubled: two nodes have recorded it", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return answered(o) && atOnce(o) })
			if o == nil {
				return false
			}
			h.Ops = append(h.Ops, &history.Op{F: "trail", Key: o.Key, Node: "node3", Type: history.OK, Names: []string{"request c"}})
			return true
		}},
	)
}
