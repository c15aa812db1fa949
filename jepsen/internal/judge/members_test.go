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
		mutation{"a removed node serves", servesAfter(MemberKey("spare1"), "remove")},
		mutation{"a removed node serves before it is admitted again", servesBetween("remove", "admit")},
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
