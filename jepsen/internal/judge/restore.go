package judge

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"holdfast/jepsen/internal/history"
)

// RestoreKeys is how many values a round has.
const RestoreKeys = 2

// restoreShared is the value that all rounds share: there, what another round wrote is nothing.
const restoreShared = 1

const savesMax = 2 // of one round

// Restore judges rounds (keys): some values are written and read while the whole state is saved and
// restored. "write" and "read" name a value by Version; "save" makes the snapshot Arg; "restore" of
// Arg sets all values at once to what the snapshot has, which is nothing if it was saved in an earlier
// round. One order must explain the whole round: so a snapshot has one moment of all values, and a
// restore is one moment. A restore without a known outcome may happen in any later round, and so may a
// write of the shared value.
func Restore(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	restores, unknown, open := 0, 0, []*history.Op{}
	for _, key := range keys {
		v.join(restoreRound(key, of[key], open))
		for _, o := range of[key] {
			if o.F == "restore" && o.Type == history.OK {
				restores++
			} else if o.F == "restore" && o.Type == history.Info {
				unknown++
				open = append(open, o)
			} else if o.F == "write" && o.Version == restoreShared && o.Type == history.Info {
				open = append(open, o)
			}
		}
	}
	v.note("%d rounds, %d restores, %d of unknown outcome", len(keys), restores, unknown)
	return v
}

type restoreState struct {
	now   [RestoreKeys]int64
	saved [savesMax][RestoreKeys]int64
}

func restoreRound(key string, ops, open []*history.Op) (v Verdict) {
	slots := map[int64]int{} // of each snapshot of the round
	var events []porcupine.Operation
	for _, o := range append(append([]*history.Op(nil), open...), withoutUnread(ops)...) {
		if o.F == "save" {
			if o.Type != history.OK {
				continue // nobody has it
			}
			if len(slots) == savesMax {
				v.add("undecided", fmt.Sprintf("round %s has too many snapshots", key), o)
				return v
			}
			slots[o.Arg] = len(slots)
		}
		if effective(o) {
			events = append(events, porcupine.Operation{ClientId: o.Process, Input: o, Output: o, Call: o.Invoke, Return: o.Return})
		}
	}
	model := restoreModel(key, slots)
	result, info := porcupine.CheckOperationsVerbose(model, events, Patience)
	if result == porcupine.Ok {
		return v
	}
	v.Pictures = map[string]func(string) error{
		"linearizability-" + key: func(file string) error { return porcupine.VisualizePath(model, info, file) },
	}
	if result == porcupine.Unknown {
		v.add("undecided", fmt.Sprintf("round %s with %d operations after %v", key, len(events), Patience))
		return v
	}
	v.add("not linearizable", fmt.Sprintf("round %s, the fewest operations that contradict each other:", key), shortest(model, events)...)
	return v
}

func restoreModel(key string, slots map[int64]int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return restoreState{} },
		Step: func(state, input, _ any) (bool, any) {
			s, o := state.(restoreState), input.(*history.Op)
			switch o.F {
			case "write":
				s.now[o.Version] = o.Arg
				if o.Key != key {
					s.now[o.Version] = 0
				}
			case "read":
				return s.now[o.Version] == o.Value, s
			case "save":
				s.saved[slots[o.Arg]] = s.now
			case "restore":
				slot, here := slots[o.Arg]
				if s.now = [RestoreKeys]int64{}; here {
					s.now = s.saved[slot]
				}
			}
			return true, s
		},
		DescribeOperation: func(input, _ any) string { return input.(*history.Op).String() },
	}
}
