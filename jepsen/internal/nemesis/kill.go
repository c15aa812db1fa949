package nemesis

import (
	"time"

	"holdfast/jepsen/internal/cluster"
)

// kill one node as a crash does.
var kill = &Nemesis{
	Name: "kill", Does: "SIGKILL of one node, then a start",
	Begin: func(e *Env) (*Harm, error) {
		return e.toProcesses("killed", e.take(e.Shuffled(), 1), false, (*cluster.Node).Kill, (*cluster.Node).Start)
	},
}

// killActive kills the active node.
var killActive = &Nemesis{
	Name: "kill-active", Does: "SIGKILL of the active node",
	Begin: func(e *Env) (*Harm, error) {
		nodes, found := e.activeFirst()
		if !found {
			return nil, nil
		}
		return e.toProcesses("killed active", e.take(nodes[:1], 1), true, (*cluster.Node).Kill, (*cluster.Node).Start)
	},
}

// killMajority kills so many that the others have no quorum.
var killMajority = &Nemesis{
	Longest: time.Second,
	Name:    "kill-majority", Does: "SIGKILL of a majority at once",
	Begin: func(e *Env) (*Harm, error) {
		nodes, _ := e.activeFirst()
		return e.toProcesses("killed majority", e.take(nodes, len(nodes)/2+1), true, (*cluster.Node).Kill, (*cluster.Node).Start)
	},
}

// killAll kills every node.
var killAll = &Nemesis{
	Longest: time.Second,
	Name:    "kill-all", Does: "SIGKILL of all nodes at once",
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		return e.toProcesses("killed all", e.take(nodes, len(nodes)), true, (*cluster.Node).Kill, (*cluster.Node).Start)
	},
}
