package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

// pause stops all threads of one node, half of the time of the active one.
var pause = &Nemesis{
	Name: "pause", Does: "SIGSTOP of one node for a while, half of the time the active one",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		if e.Intn(2) == 0 {
			nodes, _ = e.activeFirst()
		}
		return e.toProcesses("paused", e.take(nodes, 1), false, (*cluster.Node).Pause, (*cluster.Node).Resume)
	},
}

// freeze stops all: no node notices that another one is away, and all clocks go on.
var freeze = &Nemesis{
	Name: "freeze", Does: "all nodes stand still at once, up to a second (the freezer of cgroup v2)", Longest: time.Second,
	Prepare: func(*cluster.Options) error { return cluster.CanFreeze() },
	Begin: func(e *Env) (*Harm, error) {
		return e.toProcesses("froze", e.take(e.Shuffled(), len(e.Cluster.Nodes)), false, (*cluster.Node).Freeze, (*cluster.Node).Thaw)
	},
}
