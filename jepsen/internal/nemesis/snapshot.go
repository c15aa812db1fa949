package nemesis

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

// snapshot lets the log be cut often, so that a node that was away gets a snapshot; and saves the
// state by the API.
var snapshot = &Nemesis{
	Name: "snapshot", Does: "the log is cut every 64 KiB; the state is saved by the API",
	Options: func(o *cluster.Options) { configured(o, "snapshot_log_bytes", 64<<10) },
	Begin: func(e *Env) (*Harm, error) {
		n := e.Shuffled()[0]
		ask := e.Cluster.Client()
		defer ask.Close()
		r := ask.Do(n, cluster.Request{Method: "GET", Path: "/v1/sys/storage/raft/snapshot", Timeout: 10 * time.Second})
		if r.Known() && r.Status != 200 {
			return nil, fmt.Errorf("snapshot of %s: %s", n.Name, r.What())
		}
		return &Harm{What: "saved a snapshot of " + n.Name, Undo: func() error { return nil }}, nil
	},
}

// compact cuts the log as often as the program can, so that every second's nodes begin from a snapshot.
var compact = &Nemesis{
	Name: "compact", Does: "the log is cut every 16 KiB, some 100 entries; one node dies and catches up from a snapshot",
	Options: func(o *cluster.Options) { configured(o, "snapshot_log_bytes", 16<<10) },
	Begin: func(e *Env) (*Harm, error) {
		return e.toProcesses("killed", e.take(e.Shuffled(), 1), false, (*cluster.Node).Kill, (*cluster.Node).Start)
	},
}

// none: no fault at all, to see that the checks are quiet then.
var none = &Nemesis{
	Name: "none", Does: "no fault: for comparison; the run is not judged by its faults",
	Begin: func(*Env) (*Harm, error) { return nil, nil },
}
