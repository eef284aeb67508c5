package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// SyncTree makes a directory durable with all regular files and directories below it, and waits for nobody else's files, as syncfs would. What
// vanishes meanwhile is left out; no directory at all is no error. ctx ends it early, with an error.
//
// System calls: for each file and directory open(O_NOFOLLOW), fsync, close; a directory after what's in it.
func SyncTree(ctx context.Context, dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, path)
			return nil
		case d.Type().IsRegular():
			return syncOne(path)
		}
		return nil
	})
	for _, d := range slices.Backward(dirs) {
		if err == nil {
			err = syncOne(d)
		}
	}
	if err != nil {
		return fmt.Errorf("write out %s: %w", dir, err)
	}
	return nil
}

func syncOne(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
