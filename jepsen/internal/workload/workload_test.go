package workload

import (
	"slices"
	"testing"

	"holdfast/jepsen/internal/history"
	"holdfast/jepsen/internal/judge"
)

// uses of one token of each kind, accepted and refused so many times, with enough renewals.
func uses(accepted, refused int) *history.History {
	h := &history.History{}
	add := func(o history.Op) {
		o.Type = history.OK
		h.Ops = append(h.Ops, &o)
	}
	create := func(key, kind string) {
		o := history.Op{F: "create", Key: key, Text: kind, Value: 1}
		if kind == judge.Renewed || kind == judge.Periodic {
			o.Values = []int64{1}
		}
		if key == "leaf" {
			o.Names = []string{judge.Tree}
		}
		add(o)
	}
	for _, kind := range tokenKindsAll {
		create(kind, kind)
		for i := range accepted + refused {
			o := history.Op{F: "use", Key: kind, Invoke: 2}
			if i < accepted {
				o.Value = 1
			}
			add(o)
		}
	}
	for range usesLeast {
		add(history.Op{F: "renew", Key: judge.Renewed, Value: 2})
		add(history.Op{F: "renew", Key: judge.Periodic, Value: 2})
		add(history.Op{F: "renew", Key: judge.Batch, Value: judge.NotRenewable})
	}
	create("leaf", judge.Batch)
	create("tree.orphan", judge.Batch)
	add(history.Op{F: "revoke", Key: judge.Tree})
	for range refused {
		add(history.Op{F: "use", Key: "leaf"})
		add(history.Op{F: "use", Key: "tree.orphan", Value: 1})
	}
	return h
}

func TestARunWithTooFewUsesOfAKindLacksThem(t *testing.T) {
	if few := tokens.Lacks(uses(usesLeast, usesLeast)); len(few) > 0 {
		t.Errorf("enough happened, and it lacks %q", few)
	}
	want := []string{"batch ended with its parent: 9 of 10", "batch good without a parent: 9 of 10", "brief refused: 9 of 10",
		"limited refused: 9 of 10", "periodic refused: 9 of 10", "renewed refused: 9 of 10", "tree refused: 9 of 10"}
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
