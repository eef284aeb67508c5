package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/durable"
)

// ErrNoRoom is wrapped when the file system below has too little space for an image.
var ErrNoRoom = errors.New("not enough disk space")

// newSuffix is what an image is called until it's whole.
const newSuffix = ".new"

// ensureImage makes the image unless there is one, whose size then counts. One that another life began is made anew.
func (v Volume) ensureImage(ctx context.Context) error {
	if _, err := os.Lstat(v.Image); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	tmp := v.Image + newSuffix
	if err := v.makeImage(ctx, tmp); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("make volume image %s: %w", v.Image, err)
	}
	if err := durable.Rename(tmp, v.Image); err != nil {
		return fmt.Errorf("make volume image: %w", err)
	}
	return nil
}

func (v Volume) makeImage(ctx context.Context, path string) error {
	if v.Bytes < MinBytes {
		return fmt.Errorf("a volume has at least %s, not %s", size(MinBytes), size(v.Bytes))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := v.checkRoom(filepath.Dir(path)); err != nil {
		return err
	}
	if err := allocate(path, v.Bytes); err != nil {
		return err
	}
	return mkfs(ctx, path)
}

// checkRoom refuses before anything is allocated: a full file system hurts everybody on it.
func (v Volume) checkRoom(dir string) error {
	free, err := freeBytes(dir)
	if err != nil {
		return err
	}
	reserve := v.Reserve
	if reserve == 0 {
		reserve = DefaultReserve
	}
	if v.Bytes+reserve > free {
		return fmt.Errorf("%w: %s has %s free, the volume takes %s and %s must stay free", ErrNoRoom, dir, size(free), size(v.Bytes), size(reserve))
	}
	return nil
}

func freeBytes(path string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// allocate makes a file that has all its blocks.
func allocate(path string, bytes int64) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
		if errors.Is(err, unix.ENOSPC) {
			err = fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		return fmt.Errorf("allocate %s: %w", size(bytes), err)
	}
	return f.Sync()
}

// mkfs makes the file system: metadata once and not twice, since both copies would lie in one file; no discard, which would give the
// image's blocks back.
func mkfs(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, "mkfs.btrfs", "--quiet", "--nodiscard", "--metadata", "single", "--data", "single", "--label", "space", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.btrfs: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// size writes a number of bytes for people.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
