package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/space-platform/space/internal/host/image"
)

// The limits of the layers that are kept.
const (
	keptLayerBytes = 8 << 30
	freeLayerBytes = 1 << 30 // stay free on their file system
)

func (o Order) registry() image.Registry {
	return image.Registry{Login: o.login, Insecure: o.Insecure, Allowed: o.Allowed, Cache: image.Cache{Dir: o.Layers, Limit: keptLayerBytes, MinFree: freeLayerBytes}}
}

// resolve finds out what an image is now.
func resolve(ctx context.Context, o Order) (Result, error) {
	i, err := o.registry().Find(ctx, o.Image)
	if err = errors.Join(err, os.RemoveAll(filepath.Join(o.Dir, viewName))); err != nil {
		return Result{}, err
	}
	return Result{Reference: i.Reference, Config: &i.Config}, nil
}

// limits bounds the tree by the disk it's for.
func (o Order) limits() image.Limits {
	l := image.DefaultLimits
	if o.DiskBytes > 0 {
		l.Bytes = min(l.Bytes, treeFactor*o.DiskBytes)
	}
	return l
}

// treeFactor is how many bytes an image's layers may have for each of its disk's: layers replace each other's files.
const treeFactor = 4

// fillForeign fills the tree from somebody else's image or archive.
func (b *build) fillForeign(ctx context.Context) error {
	tree, err := image.OpenTree(b.root, b.order.limits())
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := b.apply(ctx, tree); err != nil {
		return err
	}
	return b.complete(tree)
}

func (b *build) apply(ctx context.Context, tree *image.Tree) error {
	if b.order.Rootfs != "" {
		b.progress("unpacking the archive")
		f, err := os.Open(b.order.Rootfs)
		if err != nil {
			return err
		}
		defer f.Close()
		return tree.ApplyArchive(ctx, f)
	}
	i, closeImage, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer closeImage()
	b.result.Reference, b.result.Config = i.Reference, &i.Config
	return i.Apply(ctx, tree, func(line string) { b.progress("unpacking " + line) })
}

func (b *build) open(ctx context.Context) (*image.Image, func(), error) {
	if b.order.Archive != "" {
		return image.Open(ctx, b.order.Archive, b.order.Dir, b.order.limits())
	}
	i, err := b.order.registry().Find(ctx, b.order.Image)
	return i, func() {}, err
}

// mountPoints are the directories over which the guest mounts, and what an image may lack that programs rely on. The guest's own program
// isn't among the files: it comes with the kernel.
var mountPoints = map[string]uint32{"proc": 0o555, "sys": 0o555, "dev": 0o755, "run": 0o755, "tmp": 0o1777}

// complete adds what an image takes for granted, as any container runtime does: mount points, its working directory, a hosts file.
func (b *build) complete(tree *image.Tree) error {
	for path, mode := range mountPoints {
		if err := tree.EnsureDir(path, mode); err != nil {
			return err
		}
	}
	for path, content := range etcFiles() {
		if err := tree.EnsureFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if b.result.Config == nil {
		return nil
	}
	if err := tree.EnsureDir(b.result.Config.WorkingDir, 0o755); err != nil {
		return fmt.Errorf("the working directory: %w", err)
	}
	return nil
}
