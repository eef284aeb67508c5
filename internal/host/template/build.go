package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/rootfs"
)

// builder makes one template, or a snapshot of one.
type builder struct {
	cfg       *Config
	layers    *layers
	order     Order
	size      rootfs.Size
	secondary bool   // it's a snapshot of another shape than the template's own
	dir       string // where it's made; without buildSuffix it's the name of what's whole
	borrow    func(template string) (Snapshot, Defaults, func(), error)
	log       func(step int, text string)
	now       func(progress string) // what it does right now
	step      int                   // where it is

	state    Defaults  // of the sessions that come next
	workdirs []workdir // that have to be there when the next machine runs something
	config   *image.Config
	uploads  []func() // ends the use of each
}

// set sets what the sessions have that come next.
func (b *builder) set(d Defaults, field string) {
	b.state = b.state.with(d)
	if d.Workdir != "" {
		b.workdirs = append(b.workdirs, workdir{path: d.Workdir, user: b.state.User, step: b.step, field: field})
	}
}

// said says what the build does now, to whoever asks and in the log.
func (b *builder) said(line string) {
	b.now(line)
	b.log(b.step, line)
}

func (b *builder) disk() string { return filepath.Join(b.dir, diskName) }

// build makes the template and gives it its name. When it fails, nothing is left of it but layers.
func (b *builder) build(ctx context.Context) (*base, error) {
	defer b.letGo()
	return b.make(ctx, func() error {
		plan, err := b.plan(ctx)
		if err != nil {
			return err
		}
		return b.follow(ctx, plan)
	})
}

// again makes a new snapshot of a template's disk.
func (b *builder) again(ctx context.Context, from *base) (*base, error) {
	b.state, b.config, b.step = from.m.Defaults, from.m.Image, len(b.order.Steps)+1
	return b.make(ctx, func() error { return b.cfg.Clone(from.file(diskName), b.disk(), 0) })
}

// make makes a directory, fills it by getting a disk, and makes the snapshot.
func (b *builder) make(ctx context.Context, getDisk func() error) (_ *base, err error) {
	if err := b.cfg.Room(); err != nil {
		return nil, err
	}
	if err := b.cfg.Volume.Make(b.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(at(b.step, err), b.cfg.Volume.Delete(b.dir))
		}
	}()
	if err := getDisk(); err != nil {
		return nil, err
	}
	if err := b.grow(); err != nil {
		return nil, err
	}
	return b.snapshot(ctx)
}

// grow makes the disk as large as ordered; the guest makes its file system larger when it boots.
func (b *builder) grow() error {
	info, err := os.Stat(b.disk())
	if err != nil {
		return err
	}
	switch {
	case b.size.DiskBytes == 0:
		b.size.DiskBytes = info.Size()
	case b.size.DiskBytes < info.Size():
		return space.FieldErrorf("shape.disk_bytes", "it's %d MiB; what the template is made of has %d", b.size.DiskBytes/mib, info.Size()/mib)
	case b.size.DiskBytes > info.Size():
		return os.Truncate(b.disk(), b.size.DiskBytes)
	}
	return nil
}
