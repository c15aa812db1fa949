package judge

import (
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generateQuota: one node, which counts as the program does, at a moment of each request.
func generateQuota(seed int64) *history.History {
	w := newWorld(seed)
	const slow = int64(QuotaWindow) / 40000 // a request takes up to 2000 units of the plan
	moments := w.plan(300, func(o *history.Op) { o.F, o.Key, o.Node = "ask", "limited", "node1" })
	begun, count := int64(0), 0
	for _, m := range moments {
		o, at := m.op, m.at*slow
		o.Invoke, o.Return = o.Invoke*slow, o.Return*slow
		if count == 0 || at-begun >= int64(QuotaWindow) {
			begun, count = at, 0
		}
		if count < QuotaRate {
			count++
			o.Value = 1
		}
		if o.Value == 1 {
			w.forget(o)
		}
	}
	return w.history()
}

func TestQuota(t *testing.T) {
	judged(t, Quota, generateQuota,
		mutation{"doubled: all are served", func(_ *rand.Rand, h *history.History) bool {
			at := end(h)
			for i := range int64(2*QuotaRate + 1) {
				h.Ops = append(h.Ops, &history.Op{F: "ask", Key: "limited", Node: "node1", Type: history.OK, Value: 1, Invoke: at + i, Return: at + i + 1})
			}
			return true
		}},
		mutation{"early: refused after a quiet time", func(_ *rand.Rand, h *history.History) bool {
			at := end(h) + 2*int64(QuotaWindow)
			for _, o := range h.Ops {
				if o.Type == history.Info {
					o.Return = at - 1 - int64(QuotaWindow) // it was counted before
				}
			}
			h.Ops = append(h.Ops, &history.Op{F: "ask", Key: "limited", Node: "node1", Type: history.OK, Invoke: at, Return: at + 1})
			return true
		}},
		mutation{"swapped: refused by a node that served few", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, func(o *history.Op) bool { return o.Type == history.OK && o.Value == 0 })
			if o != nil {
				o.Node = "node2"
			}
			return o != nil
		}},
	)
}
