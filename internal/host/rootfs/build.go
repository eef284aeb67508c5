package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// build is one run of a recipe in the helper.
type build struct {
	recipe   Recipe
	root     string // the tree that becomes the file system
	progress func(line string)
}

// The names in a build's directory.
const (
	rootName = "root"
	DiskName = "disk.img"
)

// makeAll fills dir/root by the recipe, makes dir/disk.img of it, and removes the tree. Progress is told a line per step.
func makeAll(ctx context.Context, r Recipe, dir string, progress func(string)) error {
	b := build{recipe: r, root: filepath.Join(dir, rootName), progress: progress}
	for _, step := range []func() error{
		func() error { return os.Mkdir(b.root, 0o755) },
		b.useMemory,
		func() error { return os.Chmod(b.root, 0o755) }, // whatever the umask
		func() error { return r.fill(ctx, b) },
		func() error { return b.writeFiles(etcFiles()) },
		func() error { return makeImage(ctx, b, filepath.Join(dir, DiskName)) },
		b.removeTree,
	} {
		if err := step(); err != nil {
			return fmt.Errorf("make the file system of %s: %w", r.Name, err)
		}
	}
	return nil
}

// A tree is made in memory if the machine has so much to spare: dpkg syncs after each file, which takes minutes on a disk.
const (
	memoryNeeded = 2 * gib
	memoryOption = "size=1g,mode=0755"
)

// useMemory mounts a file system in memory where the tree is going to be. The helper's mounts end with it.
func (b build) useMemory() error {
	if availableMemory() < memoryNeeded {
		return nil
	}
	if err := unix.Mount("tmpfs", b.root, "tmpfs", 0, memoryOption); err != nil {
		return fmt.Errorf("make room in memory: %w", err)
	}
	return nil
}

// availableMemory returns how many bytes the kernel would give to somebody who asks; 0 if it doesn't say.
func availableMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if kib, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64) // 0 if it's no number
			return n << 10
		}
	}
	return 0
}

func (b build) removeTree() error {
	if err := unix.Unmount(b.root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it's on the disk
		return err
	}
	return os.RemoveAll(b.root)
}

// makeImage makes an ext4 image of the tree: with a journal, without blocks reserved for root, and with nothing left for the guest's kernel to
// initialise in the background, which each clone would do again.
func makeImage(ctx context.Context, b build, path string) error {
	b.progress("making the ext4 image")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(b.recipe.Size.DiskBytes); err != nil {
		return err
	}
	args := []string{"-q", "-F", "-t", "ext4", "-m", "0", "-L", b.recipe.Name, "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}
	if b.recipe.Size.DiskBytes >= gib {
		args = append(args, "-J", "size=16") // the default is four times that, all of it copied by a snapshot's first writes
	}
	return run(exec.CommandContext(ctx, "mke2fs", append(args, "-d", b.root, path)...))
}

// writeFiles writes files below the root, by their paths in it.
func (b build) writeFiles(files map[string]string) error {
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, text := range files {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.RemoveAll(name); err != nil { // it may be a link
			return err
		}
		if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// maxErrorOutput bounds what an error repeats of a program's output, in bytes.
const maxErrorOutput = 2 << 10

// run runs a program; its error ends with what the program printed last.
func run(c *exec.Cmd) error {
	out, err := c.CombinedOutput()
	if err == nil {
		return nil
	}
	tail := strings.TrimSpace(string(out[max(0, len(out)-maxErrorOutput):]))
	return fmt.Errorf("%s: %w: %s", filepath.Base(c.Path), err, tail)
}
