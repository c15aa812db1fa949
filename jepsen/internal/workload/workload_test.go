package workload

import (
	"slices"
	"testing"

	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// uses of three tokens, one of each kind, accepted and refused so many times.
func uses(accepted, refused int) *history.History {
	h := &history.History{}
	for _, kind := range []string{judge.Brief, judge.Limited, judge.Tree} {
		h.Ops = append(h.Ops, &history.Op{F: "create", Key: kind, Text: kind, Type: history.OK})
		for i := range accepted + refused {
			o := &history.Op{F: "use", Key: kind, Type: history.OK}
			if i < accepted {
				o.Value = 1
			}
			h.Ops = append(h.Ops, o)
		}
	}
	return h
}

func TestARunWithTooFewUsesOfAKindLacksThem(t *testing.T) {
	if few := tokens.Lacks(uses(usesLeast, usesLeast)); len(few) > 0 {
		t.Errorf("enough happened, and it lacks %q", few)
	}
	want := []string{"brief refused: 9 of 10", "limited refused: 9 of 10", "tree refused: 9 of 10"}
	if few := tokens.Lacks(uses(usesLeast, usesLeast-1)); !slices.Equal(few, want) {
		t.Errorf("it lacks %q, not %q", few, want)
	}
}

func TestARunWithoutRefusedCheckAndSetLacksThem(t *testing.T) {
	h := &history.History{}
	for i := range int64(casLeast) {
		h.Ops = append(h.Ops, &history.Op{F: "write", CAS: &i, Version: i + 1, Type: history.OK})
	}
	want := []string{"check-and-set refused: 0 of 10"}
	if few := register.Lacks(h); !slices.Equal(few, want) {
		t.Errorf("it lacks %q, not %q", few, want)
	}
}
