package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// ownerAbove looks for the nearest directory above a path that exists, and returns what gives its owner everything below it on the way
// to the path: root, called with sudo, writes into another user's home.
func ownerAbove(path string) (give func() error, err error) {
	made := []string{path}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil && dir != filepath.Dir(dir) {
			made = append(made, dir)
			continue
		}
		if err != nil {
			return nil, err
		}
		owner, ok := st.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, fmt.Errorf("find the owner of %s", dir)
		}
		return func() error { return chownAll(made, int(owner.Uid), int(owner.Gid)) }, nil
	}
}

func chownAll(paths []string, uid, gid int) error {
	if os.Geteuid() != 0 {
		return nil // what we make is ours already
	}
	for _, p := range slices.Backward(paths) {
		if err := os.Lchown(p, uid, gid); err != nil {
			return err
		}
	}
	return nil
}
