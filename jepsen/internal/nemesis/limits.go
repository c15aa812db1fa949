package nemesis

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"holdfast/jepsen/internal/cluster"
)

const fdsProbes = 12 // connections that are tried, more than the limit leaves

// fds lowers how many files one node may open to what it has open, and two more.
var fds = &Nemesis{
	Name: "fds", Does: "one node may open no more than two further files", Acts: true,
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOne()
		if n == nil {
			return nil, nil
		}
		n.MayEnd(exitDisk)
		restore, err := n.Limit(syscall.RLIMIT_NOFILE, 2)
		if err != nil {
			return nil, err
		}
		var probes []*cluster.Client
		refused := false
		for range fdsProbes {
			ask := e.Cluster.Client()
			probes = append(probes, ask)
			if !refused {
				refused = e.healthSoon(ask, n) == 0
			}
		}
		if refused {
			e.acted("fds")
		}
		nodes := []*cluster.Node{n}
		return &Harm{What: "took files of " + n.Name, Back: func() { e.awaitBack(nodes) }, Undo: func() error {
			defer e.giveBack(nodes)
			for _, ask := range probes {
				ask.Close()
			}
			if n.Running() {
				if err := restore(); err != nil {
					return err
				}
			}
			err := e.revive(n)
			n.MayEnd()
			return err
		}}, nil
	},
}

func (e *Env) healthSoon(ask *cluster.Client, n *cluster.Node) int {
	return ask.Do(n, cluster.Request{Method: "GET", Path: "/v1/sys/health", Timeout: 500 * time.Millisecond}).Status
}

const (
	memoryProbes = 48
	exitFailed   = 1   // of a replica without memory
	exitAborted  = 134 // of a node that cannot apply an entry for want of memory
)

// memory keeps one node from taking more memory for data; requests with large bodies want it.
var memory = &Nemesis{
	Name: "memory", Does: "one node gets no more memory for data, and requests that need it", Acts: true,
	Begin: func(e *Env) (*Harm, error) {
		n := e.takeOne()
		if n == nil {
			return nil, nil
		}
		n.MayEnd(exitFailed, exitAborted, exitDisk)
		restore, err := n.Limit(syscall.RLIMIT_DATA, 0)
		if err != nil {
			return nil, err
		}
		big := map[string]any{"v": strings.Repeat("x", 400<<10)}
		wanting := make(chan bool, memoryProbes)
		for i := range memoryProbes {
			go func() {
				ask := e.Cluster.Client()
				defer ask.Close()
				r := ask.Do(n, cluster.Request{Method: "PUT", Path: fmt.Sprintf("/v1/probe/big%d", i%2), Body: big, Timeout: time.Second})
				wanting <- r.Status >= 500
			}()
		}
		for range memoryProbes {
			if <-wanting {
				defer e.acted("memory")
			}
		}
		nodes := []*cluster.Node{n}
		return &Harm{What: "took memory of " + n.Name, Back: func() { e.awaitBack(nodes) }, Undo: func() error {
			defer e.giveBack(nodes)
			if !n.Running() {
				e.acted("memory")
			} else if err := restore(); err != nil {
				return err
			}
			err := e.revive(n)
			n.MayEnd()
			return err
		}}, nil
	},
}
