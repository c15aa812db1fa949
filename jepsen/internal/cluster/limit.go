package cluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// Limit lowers a limit of the process, of open files or data, to what it has now and so much
// more; the result takes the limit back.
func (n *Node) Limit(resource int, more uint64) (restore func() error, err error) {
	files, _, err := n.usage()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return nil, fmt.Errorf("%s does not run", n.Name)
	}
	pid := n.process.Process.Pid
	have := uint64(files)
	if resource == syscall.RLIMIT_DATA {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return nil, err
		}
		var other [5]uint64 // pages of all kinds, before those of data
		if _, err := fmt.Sscan(string(text), &other[0], &other[1], &other[2], &other[3], &other[4], &have); err != nil {
			return nil, err
		}
		have *= uint64(os.Getpagesize())
	}
	var before syscall.Rlimit
	if err := prlimit(pid, resource, nil, &before); err != nil {
		return nil, err
	}
	lower := syscall.Rlimit{Cur: have + more, Max: before.Max}
	return func() error {
		if err := prlimit(pid, resource, &before, nil); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err // a process that has ended has no limits
		}
		return nil
	}, prlimit(pid, resource, &lower, nil)
}

func prlimit(pid, resource int, set, got *syscall.Rlimit) error {
	_, _, failed := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(got)), 0, 0)
	if failed != 0 {
		return fmt.Errorf("prlimit of process %d: %w", pid, failed)
	}
	return nil
}
