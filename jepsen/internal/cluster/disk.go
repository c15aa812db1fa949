package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// Disk is a file system of its own for each node: a file with ext4 or, on every second node where
// mkfs.xfs is installed, XFS. The kernel takes it away with the namespaces.
type Disk struct {
	MiB int // 0: none
	XFS bool
}

func (n *Node) imageFile() string { return filepath.Join(n.cluster.dir, n.Name+".disk") }

// diskDir is where the node's own disk is mounted, or just its folder.
func (n *Node) diskDir() string {
	if n.cluster.options.Disk.MiB == 0 {
		return n.Dir
	}
	return filepath.Join(n.Dir, "disk")
}

func (n *Node) openDisk() error {
	if n.cluster.options.Faults {
		if err := n.makeFaultFile(); err != nil {
			return err
		}
	}
	disk := n.cluster.options.Disk
	if disk.MiB == 0 {
		return nil
	}
	if n.cluster.sandbox.Loopback {
		return errors.New("this machine makes no namespaces: no disk is mounted")
	}
	file, err := os.Create(n.imageFile())
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(int64(disk.MiB) << 20); err != nil {
		return err
	}
	mkfs := []string{"mkfs.ext4", "-q", "-F"}
	if disk.XFS && n.Number%2 == 0 {
		mkfs = []string{"mkfs.xfs", "-q", "-f"}
	}
	if err := run(mkfs[0], append(mkfs[1:], n.imageFile())...); err != nil {
		return err
	}
	if err := os.MkdirAll(n.diskDir(), 0o700); err != nil {
		return err
	}
	return n.mountDisk()
}

func (n *Node) mountDisk() error { return run("mount", "-o", "loop", n.imageFile(), n.diskDir()) }

func (n *Node) closeDisk() error {
	if n.cluster.options.Disk.MiB == 0 {
		return nil
	}
	return syscall.Unmount(n.diskDir(), syscall.MNT_DETACH)
}

const (
	fsShutdown = 0x8004587d // FS_IOC_SHUTDOWN
	noLogFlush = 2
	diskFailed = 74 // how the program ends when its disk fails
)

func (n *Node) markFile() string { return filepath.Join(n.diskDir(), "unsynced") }

// CutPower ends the process and drops every write that was not synced. A file that was written without
// a sync must be gone afterwards; it is an error if the file is there.
func (n *Node) CutPower() error {
	if err := os.WriteFile(n.markFile(), []byte("not synced"), 0o600); err != nil {
		return err
	}
	n.MayEnd(diskFailed)              // a write that is under way fails before its thread stops
	if err := n.Pause(); err != nil { // nothing may happen between the cut and the end
		return err
	}
	dir, err := os.Open(n.diskDir())
	if err != nil {
		return err
	}
	how := uint32(noLogFlush)
	_, _, failed := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), fsShutdown, uintptr(unsafe.Pointer(&how)))
	dir.Close()
	if err := n.Kill(); err != nil {
		return err
	}
	if failed != 0 {
		return fmt.Errorf("shutdown of the disk of %s: %w", n.Name, failed)
	}
	return nil
}

// PowerUp mounts the disk again and starts the process.
func (n *Node) PowerUp() error {
	var err error
	for range 100 { // the kernel may still be closing files of the process
		if err = syscall.Unmount(n.diskDir(), 0); err != syscall.EBUSY {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("umount of the disk of %s: %w", n.Name, err)
	}
	if err := n.mountDisk(); err != nil {
		return err
	}
	if text, err := os.ReadFile(n.markFile()); err == nil && len(text) > 0 {
		return fmt.Errorf("the power cut of %s lost nothing: a file that was not synced is there", n.Name)
	}
	return n.Start()
}

func (n *Node) ballastFile() string { return filepath.Join(n.diskDir(), "ballast") }

// Fill the node's disk to the last block; the bytes it took.
func (n *Node) Fill() (took int64, err error) {
	f, err := os.Create(n.ballastFile())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for _, size := range []int{1 << 20, 4096} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			var wrote int
			wrote, err = f.Write(block)
			took += int64(wrote)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return took, err
		}
	}
	return took, nil
}

// Free takes back what Fill took.
func (n *Node) Free() error { return os.Remove(n.ballastFile()) }
