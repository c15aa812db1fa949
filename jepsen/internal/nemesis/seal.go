package nemesis

import (
	"fmt"

	"holdfast/jepsen/internal/cluster"
)

// sealOne seals one node by the API; it opens by itself when it starts again.
var sealOne = &Nemesis{
	Name: "seal-one", Does: "sys/seal of one node, then a start",
	Begin: func(e *Env) (*Harm, error) {
		return e.toProcesses("sealed", e.take(e.Shuffled(), 1), false, func(n *cluster.Node) error {
			ask := e.Cluster.Client()
			defer ask.Close()
			r := ask.Do(n, cluster.Request{Method: "PUT", Path: "/v1/sys/seal"})
			if r.Status == 204 || r.Status == 0 || r.Status >= 500 {
				return nil // a node without a leader cannot authorise it
			}
			return fmt.Errorf("sys/seal of %s: %s", n.Name, r.What())
		}, func(n *cluster.Node) error {
			if err := n.Kill(); err != nil {
				return err
			}
			return n.Start()
		})
	},
}
