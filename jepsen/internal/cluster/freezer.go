package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The freezer is that of cgroup v2, which has frozen processes die of SIGKILL: that of v1 would keep
// them when the harness is killed.

const (
	groupEnv   = "HOLDFAST_JEPSEN_GROUP"
	freezeSoon = 5 * time.Second
)

var groupRoots = []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"}

// removal waits for the end of its input, which comes with the end of the harness, also by SIGKILL.
// Groups can be removed once the processes in them have ended.
const removal = `cat; n=0; while [ -d "$1" ] && [ $n -lt 100 ]; do rmdir "$1"/node* "$1" 2>/dev/null; n=$((n+1)); sleep 0.1; done`

// openGroup makes the group below which nodes can be frozen; "" where the machine has no such thing.
// Its end removes the group.
func openGroup() (dir string, end func()) {
	for _, root := range groupRoots {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(root, fmt.Sprintf("holdfast-jepsen-%d-", os.Getpid()))
		if err != nil {
			continue
		}
		remover := exec.Command("sh", "-c", removal, "sh", dir)
		remover.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		input, err := remover.StdinPipe()
		if err == nil {
			err = remover.Start()
		}
		if err != nil {
			_ = syscall.Rmdir(dir) // the group has no process left
			continue
		}
		return dir, func() {
			_ = input.Close() // all that it waits for
			_ = remover.Wait()
		}
	}
	return "", func() {}
}

// CanFreeze is an error where the machine cannot.
func CanFreeze() error {
	if os.Getenv(groupEnv) == "" {
		return errors.New("this machine has no cgroup v2 that can be written, so nodes cannot be frozen")
	}
	return nil
}

func (n *Node) groupDir() string { return filepath.Join(os.Getenv(groupEnv), n.Name) }

func (n *Node) writeGroup(file, text string) error {
	return os.WriteFile(filepath.Join(n.groupDir(), file), []byte(text), 0)
}

// Freeze keeps the kernel from running any thread of the node; Thaw lets them go on.
func (n *Node) Freeze() error {
	if err := os.MkdirAll(n.groupDir(), 0o755); err != nil {
		return err
	}
	n.mu.Lock()
	process := n.process
	n.mu.Unlock()
	if process == nil {
		return fmt.Errorf("%s does not run", n.Name)
	}
	if err := n.writeGroup("cgroup.procs", strconv.Itoa(process.Process.Pid)); err != nil {
		return err
	}
	if err := n.writeGroup("cgroup.freeze", "1"); err != nil {
		return err
	}
	for deadline := time.Now().Add(freezeSoon); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(n.groupDir(), "cgroup.events"))
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "frozen 1") {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not frozen after %v", n.Name, freezeSoon)
		}
	}
}

func (n *Node) Thaw() error { return n.writeGroup("cgroup.freeze", "0") }
