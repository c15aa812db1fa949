package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

// asleep is long enough for the others to elect a leader.
const asleep = 2500 * time.Millisecond

// wake lets the active node sleep until another one leads. When it wakes up it is still cut off, so
// it does not hear of the new leader.
var wake = &Nemesis{
	Name: "wake", Does: "the active node is cut off and paused, and goes on while it is still cut off",
	Longest: 1500 * time.Millisecond,
	Begin: func(e *Env) (*Harm, error) {
		nodes, found := e.activeFirst()
		if !found {
			return nil, nil
		}
		harm, err := e.toProcesses("cut off, paused and resumed", e.take(nodes[:1], 1), true, (*cluster.Node).Pause, func(*cluster.Node) error { return nil })
		if harm == nil || err != nil {
			return nil, err
		}
		if err := e.cut("wake", between(nodes[:1], nodes[1:])); err != nil {
			return nil, err
		}
		time.Sleep(asleep)
		if err := nodes[0].Resume(); err != nil {
			return nil, err
		}
		undo := harm.Undo
		harm.Undo = func() error {
			if err := e.cut("wake", nil); err != nil {
				return err
			}
			return undo()
		}
		return harm, nil
	},
}
