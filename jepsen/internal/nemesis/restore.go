package nemesis

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

const (
	restoreTimeout = 5 * time.Second
	snapshotPath   = "/v1/sys/storage/raft/snapshot"
)

// restore brings the whole state back to what it was when the fault began: what clients were told in
// between is undone.
var restore = &Nemesis{
	Name: "restore", Does: "the state is saved and, after a while, restored by the API; only where the judge allows that", Acts: true,
	Rewinds: true,
	Begin: func(e *Env) (*Harm, error) {
		ask := e.Cluster.Client()
		defer ask.Close()
		n := e.Shuffled()[0]
		saved := ask.Do(n, cluster.Request{Method: "GET", Path: snapshotPath, Timeout: restoreTimeout})
		if saved.Status != 200 {
			if saved.Known() {
				return nil, fmt.Errorf("snapshot of %s: %s", n.Name, saved.What())
			}
			return nil, nil // another fault
		}
		return &Harm{What: "saved the state, and restored it", Undo: func() error {
			ask := e.Cluster.Client()
			defer ask.Close()
			r := ask.Do(e.Shuffled()[0], cluster.Request{Method: "POST", Path: snapshotPath, Body: saved.Body, Timeout: restoreTimeout})
			if r.Status == 204 {
				e.acted("restore")
			} else if r.Known() {
				return fmt.Errorf("restore: %s", r.What())
			}
			return nil
		}}, nil
	},
}
