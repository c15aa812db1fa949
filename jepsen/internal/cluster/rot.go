package cluster

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const rotLeast = 64 // bytes that a file must hold to be worth damage

// Rot flips two bits in each file of the node's data whose name ends so; how many files it damaged.
func (n *Node) Rot(suffix string) (damaged int, err error) {
	err = filepath.WalkDir(n.dataDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), suffix) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		used := len(bytes.TrimRight(data, "\x00"))
		if used <= rotLeast {
			return nil
		}
		damaged++
		for third := 1; third <= 2; third++ {
			data[used*third/3] ^= 0x10
		}
		return os.WriteFile(path, data, 0o600)
	})
	return damaged, err
}
