package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is one server: its files, its network and, while it runs, its process.
type Node struct {
	Name    string
	Number  int
	Address string // of its network
	Dir     string
	Wire    *Wire // nil: the kernel's

	cluster                 *Cluster
	clientPort, clusterPort int
	meshPort                int // where other nodes reach it: its cluster port, or its relay's

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
	asked   syscall.Signal // by which the harness ended the process; 0: any end is a finding
	excused []int          // codes with which the process may end by itself
	crashes []string
	paused  bool
	program string
}

func (n *Node) dataDir() string    { return filepath.Join(n.diskDir(), "data") }
func (n *Node) logFile() string    { return filepath.Join(n.Dir, "log") }
func (n *Node) configFile() string { return filepath.Join(n.Dir, "holdfast.json") }

// Endpoint is where clients reach the node.
func (n *Node) Endpoint() string { return fmt.Sprintf("%s:%d", n.Address, n.clientPort) }

func (n *Node) writeConfig() error {
	c := n.cluster
	tls := filepath.Join(c.dir, "tls")
	members := map[string]any{}
	for _, each := range c.Nodes {
		members[each.Name] = map[string]any{"address": fmt.Sprintf("%s:%d", each.Address, each.meshPort)}
	}
	seal := map[string]any{"static": map[string]any{"key_file": filepath.Join(c.dir, "seal.key"), "key_id": "test"}}
	if c.options.Shamir {
		seal = map[string]any{"shamir": map[string]any{}}
	}
	part := map[string]any{
		"name":      "test",
		"address":   fmt.Sprintf("%s:%d", n.Address, n.clusterPort),
		"advertise": fmt.Sprintf("%s:%d", n.Address, n.meshPort),
		"ca_file":   filepath.Join(tls, "ca.pem"),
		"cert_file": filepath.Join(tls, n.Name+".pem"),
		"key_file":  filepath.Join(tls, n.Name+"-key.pem"),
		"member":    members,
	}
	listener := map[string]any{
		"address":       n.Endpoint(),
		"tls_cert_file": filepath.Join(tls, "tls-"+n.Name+".pem"),
		"tls_key_file":  filepath.Join(tls, "tls-"+n.Name+"-key.pem"),
	}
	if c.hasty {
		listener["request_timeout_s"] = "1s"
	}
	config := map[string]any{
		"node_name": n.Name,
		"data_dir":  n.dataDir(),
		"api_addr":  "https://" + n.Endpoint(),
		"workers":   2,
		"cluster":   part,
		"listener":  map[string]any{"tcp": listener},
		"seal":      seal,
	}
	if !c.options.Unaudited {
		config["audit"] = map[string]any{
			"directories": []string{n.Dir},
			"file":        map[string]any{"trail": map[string]any{"options": map[string]any{"file_path": n.TrailFile(), "write_timeout": "60s"}}},
		}
	}
	for name, value := range c.options.Config {
		config[name] = value
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(n.configFile(), text, 0o600)
}

// TrailFile is where the node keeps its audit trail.
func (n *Node) TrailFile() string { return filepath.Join(n.Dir, "audit.log") }

// Start the process. An error if it runs.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		return fmt.Errorf("%s runs already", n.Name)
	}
	if err := os.MkdirAll(n.dataDir(), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	words := append(n.cluster.sandbox.Enclose(n.Number), n.program, "server", "-config", n.configFile())
	process := exec.Command(words[0], words[1:]...)
	process.Dir = n.Dir
	process.Stdout, process.Stderr = log, log
	process.Env = append(os.Environ(), n.environment()...)
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.process, n.ended, n.asked, n.paused, n.excused = process, ended, 0, false, nil
	go n.await(process, ended)
	return nil
}

func (n *Node) await(process *exec.Cmd, ended chan struct{}) {
	err := process.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.asked == 0 && slices.Contains(n.excused, code(process.ProcessState)):
	case n.asked == 0:
		n.crashes = append(n.crashes, fmt.Sprintf("%s ended by itself: %v", n.Name, err))
	case n.asked == syscall.SIGTERM && err != nil:
		n.crashes = append(n.crashes, fmt.Sprintf("%s was stopped in order, and ended with: %v", n.Name, err))
	}
	n.process = nil
	close(ended)
}

// code is what a shell shows of an end.
func code(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// MayEnd lets the process end by itself with these codes only, until the next start.
func (n *Node) MayEnd(codes ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.excused = codes
}

// SetProgram names what the next start runs.
func (n *Node) SetProgram(path string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.program = path
}

// end sends a signal that ends the process, and waits.
func (n *Node) end(sig syscall.Signal, patience time.Duration) error {
	n.mu.Lock()
	process, ended := n.process, n.ended
	n.asked = sig
	n.mu.Unlock()
	if process == nil {
		return nil
	}
	if err := process.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%s did not end within %v of %v", n.Name, patience, sig)
	}
}

// Kill ends the process as a crash does.
func (n *Node) Kill() error { return n.end(syscall.SIGKILL, time.Minute) }

// Stop ends the process in order.
func (n *Node) Stop() error { return n.end(syscall.SIGTERM, time.Minute) }

func (n *Node) signal(sig syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return fmt.Errorf("%s does not run", n.Name)
	}
	n.paused = sig == syscall.SIGSTOP
	return n.process.Process.Signal(sig)
}

// Pause stops every thread; Resume lets them go on.
func (n *Node) Pause() error  { return n.signal(syscall.SIGSTOP) }
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Wipe what a node that does not run has stored.
func (n *Node) Wipe() error { return os.RemoveAll(n.dataDir()) }

// Running says whether there is a process.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil
}

// descriptors is how many files the process has open; memory its resident bytes.
func (n *Node) usage() (descriptors int, memory int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0, 0, fmt.Errorf("%s does not run", n.Name)
	}
	proc := fmt.Sprintf("/proc/%d/", n.process.Process.Pid)
	files, err := os.ReadDir(proc + "fd")
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(proc + "statm")
	if err != nil {
		return 0, 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, 0, err
	}
	return len(files), resident * int64(os.Getpagesize()), nil
}

// Log is all that the node has said, over all its starts.
func (n *Node) Log() string {
	text, err := os.ReadFile(n.logFile())
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "?")
}

func (n *Node) clockFile() string { return filepath.Join(n.Dir, "clock") }

// environment of the process: libraries that show it a wall clock of its own, and a disk that can
// fail. Its monotonic clock, by which timers run, stays right.
func (n *Node) environment() (all []string) {
	var libraries []string
	o := &n.cluster.options
	if o.Clocks {
		libraries = append(libraries, clockLibrary)
		all = append(all, "FAKETIME_TIMESTAMP_FILE="+n.clockFile(), "FAKETIME_NO_CACHE=1",
			"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1")
	}
	if o.Faults {
		libraries = append(libraries, filepath.Join(o.Top, "build", "jepsen", "faulty_disk.so"))
		all = append(all, "FAULTY_DISK="+n.faultFile())
	}
	if len(libraries) > 0 {
		all = append(all, "LD_PRELOAD="+strings.Join(libraries, ":"))
	}
	return all
}

const clockLibrary = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"

// SetClock sets the wall clock that the node sees wrong by so many seconds.
func (n *Node) SetClock(seconds float64) error {
	next := n.clockFile() + ".next"
	if err := os.WriteFile(next, []byte(fmt.Sprintf("%+.3f\n", seconds)), 0o600); err != nil {
		return err
	}
	return os.Rename(next, n.clockFile())
}
