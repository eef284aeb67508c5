package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/meminfo"
)

// build is one run of an order in the helper.
type build struct {
	order    Order
	recipe   Recipe
	root     string // the tree that becomes the file system
	disk     string // the image
	progress func(line string)
	result   Result
}

// rootName is the name of the tree in a build's directory.
const rootName = "root"

// makeAll fills a tree by the order, makes disk.img of it, and removes the tree. Progress is told a line per step.
func makeAll(ctx context.Context, o Order, progress func(string)) (Result, error) {
	b := &build{order: o, root: filepath.Join(o.Dir, rootName), disk: filepath.Join(o.Dir, DiskName), progress: progress}
	if err := b.all(ctx); err != nil {
		return Result{}, err
	}
	return b.result, nil
}

func (b *build) all(ctx context.Context) error {
	for _, step := range []func() error{
		b.choose,
		func() error { return os.Mkdir(b.root, 0o755) },
		b.useMemory,
		func() error { return os.Chmod(b.root, 0o755) }, // whatever the umask
		func() error { return b.fill(ctx) },
		func() error { return b.makeImage(ctx) },
		b.removeTree,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// choose finds the recipe of an order that has one.
func (b *build) choose() (err error) {
	switch {
	case b.order.Recipe != "":
		b.recipe, err = Find(b.order.Recipe)
	case b.order.Debian.Suite != "":
		if err := b.order.Debian.Check(); err != nil {
			return err
		}
		b.recipe = debianRecipe(b.order.Debian)
	}
	return err
}

func (b *build) fill(ctx context.Context) error {
	if b.order.foreign() {
		return b.fillForeign(ctx)
	}
	if b.recipe.fill == nil {
		return errors.New("the order has no source")
	}
	if err := b.recipe.fill(ctx, b); err != nil {
		return err
	}
	return b.writeFiles(etcFiles())
}

// A recipe's tree is made in memory if the machine has so much to spare: dpkg syncs after each file, which takes minutes on a disk.
const (
	memoryNeeded = 4 * gib
	memoryOption = "size=2g,mode=0755"
)

// useMemory mounts a file system in memory where the tree is going to be. The helper's mounts end with it.
func (b *build) useMemory() error {
	if b.order.Recipe == "" { // nobody knows how large others get
		return nil
	}
	if f, err := meminfo.Read(); err != nil || f.Available < memoryNeeded {
		return nil // on the disk then
	}
	if err := unix.Mount("tmpfs", b.root, "tmpfs", 0, memoryOption); err != nil {
		return fmt.Errorf("make room in memory: %w", err)
	}
	return nil
}

// removeTree removes the tree, and where the helper's view was put together.
func (b *build) removeTree() error {
	if err := unix.Unmount(b.root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) { // it's on the disk
		return err
	}
	return errors.Join(os.RemoveAll(b.root), os.RemoveAll(filepath.Join(b.order.Dir, viewName)))
}

// writeFiles writes files below the root, by their paths in it.
func (b *build) writeFiles(files map[string]string) error {
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
