package nemesis

import (
	"fmt"

	"holdfast/jepsen/internal/cluster"
)

// clock sets the wall clock of one node wrong; its monotonic clock stays right.
var clock = &Nemesis{
	Name: "clock", Does: "the wall clock of one node jumps by up to an hour to and fro (libfaketime)",
	Options: func(o *cluster.Options) { o.Clocks = true },
	Begin: func(e *Env) (*Harm, error) {
		n := e.Shuffled()[0]
		seconds := e.Intn(7200) - 3600
		if err := n.SetClock(seconds); err != nil {
			return nil, err
		}
		return &Harm{What: fmt.Sprintf("set the clock of %s by %+d s", n.Name, seconds), Undo: func() error { return n.SetClock(0) }}, nil
	},
}
