package judge

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"

	"holdfast/jepsen/internal/history"
)

// What a token may do, as the value of a register that the operator writes and each use reads.
const (
	Allowed = 1
	Denied  = 2
)

// Authority judges tokens (keys): the operator's operations "write" (Arg) allow or deny something,
// by policy or by revocation; each use is a "read" of what was decided (Value). The register is
// linearizable: nothing that begins after the answer to a denial succeeds, and nothing that begins
// after the answer to a grant is refused.
func Authority(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	for _, key := range keys {
		ops := withoutUnread(of[key])
		model := authorityModel(ops)
		events := make([]porcupine.Operation, 0, len(ops))
		for _, o := range ops {
			events = append(events, porcupine.Operation{ClientId: o.Process, Input: o, Output: o, Call: o.Invoke, Return: o.Return})
		}
		switch porcupine.CheckOperationsTimeout(model, events, Patience) {
		case porcupine.Illegal:
			v.add("wrong authority", fmt.Sprintf("token %s, the fewest operations that contradict each other:", key),
				shortest(model, events)...)
		case porcupine.Unknown:
			v.add("undecided", fmt.Sprintf("token %s with %d operations", key, len(ops)))
		}
	}
	v.note("%d tokens", len(keys))
	return v
}

// authorityState is what was decided, and how many decisions of each kind without a known outcome have
// taken effect.
type authorityState struct {
	now  int64
	used [Denied + 1]int
}

// authorityModel is a register whose writes without a known outcome take effect in the order of their
// invocation, those of one value among themselves. That refuses nothing that is possible: an earlier one
// may stand wherever a later one of the same value stands, for both have no end. And it saves the judge
// from trying each set of them.
func authorityModel(ops []*history.Op) porcupine.Model {
	places := map[*history.Op]int{}
	var open []*history.Op
	for _, o := range ops {
		if o.F == "write" && o.Type == history.Info {
			open = append(open, o)
		}
	}
	slices.SortStableFunc(open, func(a, b *history.Op) int { return cmp.Compare(a.Invoke, b.Invoke) })
	count := [Denied + 1]int{}
	for _, o := range open {
		places[o] = count[o.Arg]
		count[o.Arg]++
	}
	return porcupine.Model{
		Init: func() any { return authorityState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(authorityState), input.(*history.Op)
			if o.F != "write" {
				return o.Value == s.now, s
			}
			if place, is := places[o]; is {
				if s.used[o.Arg] != place {
					return false, s
				}
				s.used[o.Arg]++
			}
			s.now = o.Arg
			return true, s
		},
		DescribeOperation: describe,
	}
}
