package judge

import (
	"fmt"
	"math/rand"
	"testing"

	"holdfast/jepsen/internal/history"
)

// generateShares: a sealed and unsealed node, new key shares meanwhile, and what opens three nodes at the
// end. The outcome of some replacements is unknown.
func generateShares(seed int64) *history.History {
	h := generateSeal(seed)
	r := rand.New(rand.NewSource(seed))
	at := end(h)
	add := func(o history.Op) {
		o.Key, o.Invoke, o.Return = Shares, at+1, at+2
		if at += 3; o.Type == history.Info {
			o.Return = history.Open
		}
		h.Ops = append(h.Ops, &o)
	}
	made, holds := int64(1), int64(1)
	for range 1 + r.Intn(5) {
		made++
		o := history.Op{F: "rekey", Arg: made, Type: history.OK}
		if r.Intn(3) == 0 {
			o.Type = history.Info
		}
		if o.Type == history.OK || r.Intn(2) == 0 {
			holds = made
		}
		add(o)
	}
	for node := range 3 {
		for share := int64(1); share <= holds; share++ {
			o := history.Op{F: "open", Node: fmt.Sprintf("node%d", node), Arg: share, Type: history.OK, Final: true}
			if share == holds {
				o.Value = 1
			}
			add(o)
		}
	}
	return h
}

// shareMutations of what opens nodes at the end.
func shareMutations() []mutation {
	opens := func(value int64) func(*history.Op) bool {
		return func(o *history.Op) bool { return o.F == "open" && o.Value == value }
	}
	return []mutation{
		{"stale: a former key share opens a node", func(r *rand.Rand, h *history.History) bool {
			replaced := int64(0) // by one that was acknowledged
			for _, o := range h.Ops {
				if o.F == "rekey" && o.Type == history.OK {
					replaced = o.Arg
				}
			}
			o := some(r, h, func(o *history.Op) bool { return opens(0)(o) && o.Arg < replaced })
			if o != nil {
				o.Value = 1
			}
			return o != nil
		}},
		{"lost: no key share opens a node", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, opens(1))
			o.Value = 0
			return true
		}},
		{"two nodes are opened by different shares", func(r *rand.Rand, h *history.History) bool {
			o := some(r, h, opens(1))
			o.Arg++
			return true
		}},
	}
}

func TestKeyShares(t *testing.T) { judged(t, Seal, generateShares, shareMutations()...) }
