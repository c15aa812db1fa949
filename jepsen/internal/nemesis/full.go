package nemesis

import (
	"fmt"

	"holdfast/jepsen/internal/cluster"
)

// full takes all space of the disk of one node, and gives it back.
var full = &Nemesis{
	Name: "full", Does: "the disk of one node (ext4 of 96 MiB, 384 of a pair) is full to the last block, and freed", Links: true, Acts: true,
	Options: func(o *cluster.Options) {
		o.Disk = cluster.Disk{MiB: 96}
		if o.Pair { // a first sync needs room
			o.Disk.MiB = 384
		}
		configured(o, "snapshot_log_bytes", 64<<10)
		configured(o, "reserve_bytes", 8<<20)
		configured(o, "segment_bytes", 1<<20)
	},
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOne()
		if n == nil {
			return nil, nil
		}
		n.MayEnd(exitDisk)
		took, err := n.Fill()
		if err != nil {
			return nil, err
		}
		if took > 0 {
			e.acted("full")
		}
		nodes := []*cluster.Node{n}
		return &Harm{What: fmt.Sprintf("filled the disk of %s with %d MiB", n.Name, took>>20), Back: func() { e.awaitBack(nodes) },
			Undo: func() error {
				defer e.giveBack(nodes)
				if err := n.Free(); err != nil {
					return err
				}
				err := e.revive(n)
				n.MayEnd()
				return err
			}}, nil
	},
}
