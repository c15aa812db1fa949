package judge

import (
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

func generateMembers(seed int64) *history.History {
	h := generateSeal(seed)
	for _, o := range h.Ops {
		o.Key = MemberKey("spare1")
		switch o.F {
		case "seal":
			o.F = "remove"
		case "unseal":
			o.F = "admit"
		}
	}
	return h
}

func TestMembers(t *testing.T) {
	judged(t, Members, generateMembers,
		mutation{"a removed node serves", func(_ *rand.Rand, h *history.History) bool {
			at := end(h)
			h.Ops = append(h.Ops, &history.Op{Key: MemberKey("spare1"), F: "remove", Type: history.OK, Invoke: at + 1, Return: at + 2},
				&history.Op{Key: MemberKey("spare1"), F: "serve", Type: history.OK, Value: 1, Invoke: at + 3, Return: at + 4})
			return true
		}},
		mutation{"a removed node serves before it is admitted again", func(r *rand.Rand, h *history.History) bool {
			for i, s := range h.Ops {
				if s.F != "remove" {
					continue
				}
				for _, o := range h.Ops[i:] {
					if o.F == "admit" && o.Return > s.Return {
						served := some(r, h, func(p *history.Op) bool { return p.F == "serve" && s.Before(p) && p.Return < o.Invoke })
						if served != nil {
							served.Value = 1
							return true
						}
						break
					}
				}
			}
			return false
		}},
		mutation{"stale: a member shows what another one replaced", func(r *rand.Rand, h *history.History) bool {
			at := end(h)
			for i, o := range []history.Op{{F: "write", Arg: 900}, {F: "write", Arg: 901}, {F: "read", Value: 900}} {
				o.Key, o.Type, o.Invoke, o.Return = "v1/x", history.OK, at+int64(2*i)+1, at+int64(2*i)+2
				h.Ops = append(h.Ops, &o)
			}
			return true
		}},
	)
}
