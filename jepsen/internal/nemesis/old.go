package nemesis

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"holdfast/jepsen/internal/cluster"
)

// older is the program of the nodes that are not upgraded yet, and newer that of the others.
var older struct {
	mu    sync.Mutex
	newer string
	nodes map[string]bool
}

// old begins with all nodes but one on the previous build, and upgrades one after the other.
var old = &Nemesis{
	Name: "old", Does: "the build of tests/previous runs on all nodes but one, and fewer, then on none", Acts: true, Older: true,
	Longest: 6 * time.Second,
	Prepare: func(o *cluster.Options) error {
		build := exec.Command(filepath.Join(o.Top, "tests", "build-previous"))
		build.Stderr = os.Stderr
		out, err := build.Output()
		if err != nil {
			return fmt.Errorf("tests/build-previous: %w", err)
		}
		older.newer, older.nodes = o.Program, map[string]bool{}
		for i := 1; i <= max(1, o.Size-1); i++ {
			o.Programs = append(o.Programs, strings.TrimSpace(string(out)))
			older.nodes[fmt.Sprintf("node%d", i)] = true
		}
		o.Unaudited = true // the previous build knows no audit devices in the configuration
		return nil
	},
	Begin: func(e *Env) (*Harm, error) {
		nodes := stillOld(e)
		if len(nodes) == 0 {
			return nil, nil
		}
		return &Harm{What: "older build on" + nameOf(nodes), Back: func() { e.awaitBack(nodes) }, Undo: func() error {
			taken := e.take(nodes, 1)
			if len(taken) == 0 {
				return nil // another fault has them
			}
			defer e.giveBack(taken)
			return upgrade(e, taken[0])
		}}, nil
	},
}

func stillOld(e *Env) (nodes []*cluster.Node) {
	older.mu.Lock()
	defer older.mu.Unlock()
	for _, n := range e.Shuffled() {
		if older.nodes[n.Name] {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func upgrade(e *Env, n *cluster.Node) error {
	if err := n.Stop(); err != nil {
		return err
	}
	n.SetProgram(older.newer)
	if err := n.Start(); err != nil {
		return err
	}
	older.mu.Lock()
	defer older.mu.Unlock()
	delete(older.nodes, n.Name)
	e.acted("old")
	return nil
}
