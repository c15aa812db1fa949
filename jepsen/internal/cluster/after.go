package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

const (
	descriptorsMore = 24        // above what the node had before the load
	descriptorsIdle = 150       // the same with idle connections between nodes, which are kept for 20 s
	memoryMax       = 768 << 20 // resident bytes
)

var complaint = regexp.MustCompile(`Assertion|ERROR: [A-Za-z]+Sanitizer|WARNING: ThreadSanitizer|runtime error:|` +
	`state differs from (this cluster|the primary)'s`)

// NoteDescriptors keeps how many files the nodes have open before the load.
func (c *Cluster) NoteDescriptors() error {
	for _, n := range c.all() {
		if !n.Running() {
			continue
		}
		files, _, err := n.usage()
		if err != nil {
			return err
		}
		c.baseFiles = max(c.baseFiles, files)
	}
	if c.Other != nil {
		c.Other.baseFiles = c.baseFiles
	}
	return nil
}

// State is what a node says of its state.
type State struct {
	Root        string `json:"merkle_root"`
	RootVersion int64  `json:"root_version"`
	Version     int64  `json:"version"`
}

// EqualRoots waits until all nodes show one root at one version; the states that differ, else.
func (c *Cluster) EqualRoots() (State, error) {
	ask := c.Client()
	defer ask.Close()
	var states []State
	err := c.await("equal", func() bool {
		states = states[:0]
		for _, n := range c.Nodes {
			r := ask.Do(n, Request{Method: "GET", Path: "/v1/sys/internal/state"})
			var body struct{ Data State }
			if r.Status != 200 || r.JSON(&body) != nil {
				return false
			}
			states = append(states, body.Data)
		}
		for _, s := range states {
			if s != states[0] || s.Version != s.RootVersion {
				return false
			}
		}
		return true
	})
	if err != nil {
		return State{}, fmt.Errorf("%w: the nodes have %+v", err, states)
	}
	return states[0], nil
}

// Findings are what nodes must not leave behind: complaints in logs, cores, ends that nobody asked for,
// files and memory kept, and these secrets in any file.
func (c *Cluster) Findings(secrets ...string) (found []string) {
	for _, n := range c.all() {
		found = append(found, n.crashes...)
		log := n.Log()
		for _, at := range complaint.FindAllStringIndex(log, 3) {
			found = append(found, fmt.Sprintf("%s logged: %.500s", n.Name, log[at[0]:]))
		}
		if n.Running() {
			found = append(found, n.kept(c.baseFiles)...)
		}
		found = append(found, n.leaks(secrets)...)
	}
	return found
}

// kept descriptors and memory. Idle connections between nodes take a while to close, and so do those
// of a peer that was cut off; few of them say nothing, many must go.
func (n *Node) kept(before int) (found []string) {
	most := before + descriptorsIdle
	var files int
	var memory int64
	var err error
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		if files, memory, err = n.usage(); err != nil {
			return []string{err.Error()}
		}
		if files <= most || time.Now().After(deadline) {
			break
		}
		most = before + descriptorsMore
	}
	if files > most {
		found = append(found, fmt.Sprintf("%s has %d files open, %d before the load: %s", n.Name, files, before, n.sockets()))
	}
	if memory > memoryMax {
		found = append(found, fmt.Sprintf("%s takes %d MiB", n.Name, memory>>20))
	}
	return found
}

func (n *Node) leaks(secrets []string) (found []string) {
	err := filepath.WalkDir(n.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // a file that was just replaced
		}
		if matched, _ := filepath.Match("core*", entry.Name()); matched {
			found = append(found, fmt.Sprintf("%s left a core, %s", n.Name, path))
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				found = append(found, fmt.Sprintf("%s has a secret in %s", n.Name, path))
			}
		}
		return nil
	})
	if err != nil {
		found = append(found, err.Error())
	}
	return found
}

// sockets of the node's network.
func (n *Node) sockets() string {
	words := append(n.cluster.sandbox.Enclose(n.Number), "ss", "-tano")
	text, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(text)
}
