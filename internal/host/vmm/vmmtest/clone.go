package vmmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// clone copies a file to dir/name for a machine of a uid, sharing its blocks where the file system can and leaving its holes. The empty path
// stays empty.
func clone(t *testing.T, from, dir, name string, uid int) string {
	t.Helper()
	if from == "" {
		return ""
	}
	to := filepath.Join(dir, name)
	if err := Clone(from, to, uid); err != nil {
		t.Fatal(err)
	}
	return to
}

// Clone copies a file, with the given owner, sharing its blocks where the file system can and leaving its holes.
func Clone(from, to string, uid int) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer dst.Close()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) != nil {
		if err := sparse.Copy(dst, src); err != nil {
			return fmt.Errorf("clone %s: %w", from, err)
		}
	}
	return dst.Chown(uid, uid)
}
