package judge

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"holdfast/jepsen/internal/history"
)

// Move judges mounts (keys) that are moved between two places, 1 and 2: the place is a register.
// "make" puts the mount at place 1, with a secret (Version). "move" to a place (Arg) is done (Value
// 1), or refused because the mount is there already (Value 0). "read" of a place (Arg) finds the
// secret (Value 1, and the secret in Version) exactly while the mount is there.
func Move(h *history.History) (v Verdict) {
	unexpected(&v, h)
	keys, of := byKey(h.Ops)
	moves := 0
	for _, key := range keys {
		moves += moveKey(&v, key, of[key])
	}
	v.note("%d mounts, %d moves", len(keys), moves)
	return v
}

func moveKey(v *Verdict, key string, ops []*history.Op) (moves int) {
	var made *history.Op
	var kept []*history.Op
	var events []porcupine.Operation
	for _, o := range ops {
		switch {
		case o.F == "make":
			made = o
		case o.F == Unexpected || !effective(o):
			continue
		case o.F == "read" && o.Value == 1 && (made == nil || o.Version != made.Version):
			v.add("not what was moved", key, o)
			return moves
		case o.F == "move" && o.Type == history.OK && o.Value == 1:
			moves++
		}
		kept = append(kept, o)
		events = append(events, porcupine.Operation{ClientId: o.Process, Input: o, Output: o, Call: o.Invoke, Return: o.Return})
	}
	model := inOrder(placeModel(), kept)
	switch porcupine.CheckOperationsTimeout(model, events, Patience) {
	case porcupine.Illegal:
		v.add("not linearizable", fmt.Sprintf("the place of mount %s, the fewest operations that contradict each other:", key),
			shortest(model, events)...)
	case porcupine.Unknown:
		v.add("undecided", fmt.Sprintf("mount %s with %d operations", key, len(events)))
	}
	return moves
}

// placeModel: 0 is a mount that was not made yet.
func placeModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			place, o := state.(int64), input.(*history.Op)
			switch {
			case o.F == "make":
				return place == 0, int64(1)
			case o.F == "read":
				return (place == o.Arg) == (o.Value == 1), place
			case o.Type == history.Info:
				return true, o.Arg
			case o.Value == 1:
				return place == 3-o.Arg, o.Arg
			}
			return place == o.Arg, place
		},
		DescribeOperation: describe,
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}
