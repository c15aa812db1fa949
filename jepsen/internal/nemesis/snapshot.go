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
	Options: func(o *cluster.Options) { o.Config = map[string]any{"snapshot_log_bytes": 64 << 10} },
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

// none: no fault at all, to see that the checks are quiet then.
var none = &Nemesis{
	Name: "none", Does: "no fault: for comparison; the run is not judged by its faults",
	Begin: func(*Env) (*Harm, error) { return nil, nil },
}
