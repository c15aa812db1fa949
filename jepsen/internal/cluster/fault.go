package cluster

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// DiskMode is how the disk of a node fails: disk/faulty_disk.c says what each does.
type DiskMode uint32

const (
	DiskHealthy DiskMode = iota
	DiskSlow
	DiskEIO
	DiskNoRoom
	DiskTorn
	DiskHang
	DiskNth
	DiskShort
)

const controlSize = 512 // struct control

func (n *Node) faultFile() string { return filepath.Join(n.Dir, "faults") }

// SetDisk lets the calls of the node's process for its data directory, or for its audit trail, fail.
// It sets the number of Hits to 0; they are kept when the disk becomes healthy.
func (n *Node) SetDisk(mode DiskMode, arg uint32, trail bool) error {
	f, err := os.OpenFile(n.faultFile(), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	word := func(value uint32, at int64) error {
		_, err := f.WriteAt(binary.NativeEndian.AppendUint32(nil, value), at)
		return err
	}
	if mode == DiskHealthy {
		return word(0, 0)
	}
	below := n.dataDir()
	if trail {
		below = n.TrailFile()
	}
	if len(below) >= controlSize-12 {
		return fmt.Errorf("%s: the path is too long", below)
	}
	rest := make([]byte, controlSize-4)
	binary.NativeEndian.PutUint32(rest, arg)
	copy(rest[8:], below)
	if _, err := f.WriteAt(rest, 4); err != nil {
		return err
	}
	return word(uint32(mode), 0)
}

// Hits is how many calls were harmed since the fault began.
func (n *Node) Hits() (int, error) {
	text, err := os.ReadFile(n.faultFile())
	if err != nil {
		return 0, err
	}
	return int(binary.NativeEndian.Uint32(text[8:])), nil
}

func (n *Node) makeFaultFile() error {
	return os.WriteFile(n.faultFile(), make([]byte, controlSize), 0o600)
}
