package nemesis

import (
	"os/exec"
	"time"

	"holdfast/jepsen/internal/cluster"
)

// withPower gives each node a disk that can lose what was not synced.
func withPower(o *cluster.Options) {
	_, err := exec.LookPath("mkfs.xfs")
	o.Disk = cluster.Disk{MiB: 384, XFS: err == nil}
}

// power fails at one node: what it did not sync is gone.
var power = &Nemesis{
	Name: "power", Does: "power loss of one node: what its disk was not told to sync is gone (ext4, XFS on every second node)", Links: true,
	Options: withPower,
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOne()
		if n == nil {
			return nil, nil
		}
		return e.toProcesses("cut the power of", []*cluster.Node{n}, false, (*cluster.Node).CutPower, (*cluster.Node).PowerUp)
	},
}

// powerAll fails everywhere at once: no node has what was acknowledged but by its own disk.
var powerAll = &Nemesis{
	Name: "power-all", Does: "power loss of all nodes at once", Links: true, Longest: time.Second, Options: withPower,
	Begin: func(e *Env) (*Harm, error) {
		nodes := e.Shuffled()
		return e.toProcesses("cut the power of", e.take(nodes, len(nodes)), false, (*cluster.Node).CutPower, (*cluster.Node).PowerUp)
	},
}
