package judge

import (
	"fmt"

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
		model := inOrder(plainModel(), ops)
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
