package nemesis

import (
	"fmt"
	"time"

	"holdfast/jepsen/internal/cluster"
)

const (
	exitDisk   = 74  // of a node whose write or sync failed (PROTOCOL R12)
	exitKilled = 137 // SIGKILL
)

func withFaults(o *cluster.Options) { o.Faults = true }

// slow holds back each write and sync of one node.
var slow = &Nemesis{
	Name: "slow", Does: "each write and sync of one node takes 5 to 100 ms longer", Acts: true, Options: withFaults,
	Begin: func(e *Env) (*Harm, error) {
		ms := uint32(5 + e.Intn(96))
		return e.diskFault("slow", fmt.Sprintf("slowed by %d ms", ms), cluster.DiskSlow, ms, false)
	},
}

// eio lets all writes and syncs of one node fail: it ends, and acknowledges nothing more.
var eio = &Nemesis{
	Name: "eio", Does: "each write and sync of one node fails with EIO; it ends with code 74, and is started again", Acts: true,
	Options: withFaults,
	Begin: func(e *Env) (*Harm, error) {
		return e.diskFault("eio", "failed writes of", cluster.DiskEIO, 0, true, exitDisk)
	},
}

// enospc lets files of one node not grow. The node may end when its log needs another file.
var enospc = &Nemesis{
	Name: "enospc", Does: "no file of one node can grow (ENOSPC)", Acts: true,
	Options: func(o *cluster.Options) {
		withFaults(o)
		configured(o, "snapshot_log_bytes", 64<<10)
	},
	Begin: func(e *Env) (*Harm, error) {
		return e.diskFault("enospc", "kept from growing", cluster.DiskNoRoom, 0, false, exitDisk)
	},
}

// torn lets one write reach the disk in part, and the node die of it.
var torn = &Nemesis{
	Name: "torn", Does: "a write of one node leaves some of its sectors, and the node dies", Acts: true, Options: withFaults,
	Begin: func(e *Env) (*Harm, error) {
		return e.diskFault("torn", "tore a write of", cluster.DiskTorn, 0, true, exitKilled)
	},
}

// nthCall kills one node before a call for the disk that is counted off, so that over many runs every
// step of a change of files is one between which a node died.
var nthCall = &Nemesis{
	Name: "nth-call", Does: "one node dies before its n-th call for the disk", Acts: true,
	Options: func(o *cluster.Options) {
		withFaults(o)
		configured(o, "snapshot_log_bytes", 64<<10)
	},
	Begin: func(e *Env) (*Harm, error) {
		count := uint32(1 + e.Intn(100))
		return e.diskFault("nth-call", fmt.Sprintf("killed at call %d for the disk", count), cluster.DiskNth, count, false, exitKilled)
	},
}

// auditFull lets the trail of one node take nothing: it must refuse requests, for they would not be
// recorded.
var auditFull = &Nemesis{
	Name: "audit-full", Does: "the audit trail of one node takes half a line, then nothing (ENOSPC)", Acts: true, Options: withFaults,
	Begin: func(e *Env) (*Harm, error) {
		return e.trailFault("audit-full", "filled the trail of", cluster.DiskShort)
	},
}

// auditHang lets writes to the trail of one node wait.
var auditHang = &Nemesis{
	Name: "audit-hang", Does: "writes to the audit trail of one node hang", Acts: true, Options: withFaults,
	Begin: func(e *Env) (*Harm, error) { return e.trailFault("audit-hang", "hung the trail of", cluster.DiskHang) },
}

// endPatience is how long a node may need to notice that its disk has failed.
const endPatience = 20 * time.Second

// diskFault of one node. With `ends`, the node must end once a call was harmed.
func (e *Env) diskFault(name, what string, mode cluster.DiskMode, arg uint32, ends bool, codes ...int) (*Harm, error) {
	n := e.takeOne()
	if n == nil {
		return nil, nil
	}
	n.MayEnd(codes...)
	if err := n.SetDisk(mode, arg, false); err != nil {
		return nil, err
	}
	nodes := []*cluster.Node{n}
	return &Harm{What: what + " " + n.Name, Back: func() { e.awaitBack(nodes) }, Undo: func() error {
		defer e.giveBack(nodes)
		hits, err := n.Hits()
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(endPatience); ends && hits > 0 && n.Running(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				e.problem("%s goes on %v after its disk failed", n.Name, endPatience)
				break
			}
		}
		if hits > 0 && (mode != cluster.DiskNth || !n.Running()) {
			e.acted(name)
		}
		if err := n.SetDisk(cluster.DiskHealthy, 0, false); err != nil {
			return err
		}
		err = e.revive(n)
		n.MayEnd()
		return err
	}}, nil
}

func (e *Env) trailFault(name, what string, mode cluster.DiskMode) (*Harm, error) {
	n := e.takeOne()
	if n == nil {
		return nil, nil
	}
	if err := n.SetDisk(mode, 0, true); err != nil {
		return nil, err
	}
	return &Harm{What: what + " " + n.Name, Undo: func() error {
		defer e.giveBack([]*cluster.Node{n})
		if hits, err := n.Hits(); err != nil {
			return err
		} else if hits > 0 {
			e.acted(name)
		}
		return n.SetDisk(cluster.DiskHealthy, 0, true)
	}}, nil
}
