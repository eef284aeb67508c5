package vmmtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
		if err := copySparse(src, dst); err != nil {
			return fmt.Errorf("clone %s: %w", from, err)
		}
	}
	return dst.Chown(uid, uid)
}

func copySparse(src, dst *os.File) error {
	size, err := src.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := dst.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := src.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = src.Seek(data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(dst, data), io.NewSectionReader(src, data, at-data)); err != nil {
			return err
		}
	}
	return nil
}
