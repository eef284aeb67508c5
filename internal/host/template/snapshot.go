package template

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
)

// snapshot boots a machine from the disk, warms it up, starts what is to run in it, and saves it. What it leaves is whole and has its name.
func (b *builder) snapshot(ctx context.Context) (*base, error) {
	var vm vmm.Manifest
	err := b.inMachine(ctx, filepath.Join(b.dir, memoryName), func(ctx context.Context, g guest) (err error) {
		if err := b.makeWorkdirs(ctx, g.link); err != nil {
			return err
		}
		if err := b.warm(ctx, g.sessions); err != nil {
			return err
		}
		if err := b.begin(ctx, g); err != nil {
			return err
		}
		vm, err = b.save(ctx, g)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := b.finish(ctx, vm); err != nil {
		return nil, err
	}
	if err := seal.Publish(b.cfg.Volume, b.dir, b.final()); err != nil {
		return nil, err
	}
	return readBase(b.final())
}

// save lets the guest come to rest, pauses the machine, writes its device state and ends it. Nothing reaches the guest any more after it's quiet.
func (b *builder) save(ctx context.Context, g guest) (vmm.Manifest, error) {
	b.now("saving the base snapshot")
	if err := g.rest(ctx); err != nil {
		return vmm.Manifest{}, err
	}
	g.link.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := g.vm.Pause(ctx); err != nil {
		return vmm.Manifest{}, err
	}
	state, err := os.OpenFile(filepath.Join(b.dir, stateName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return vmm.Manifest{}, err
	}
	defer state.Close()
	manifest, finish, err := g.vm.Save(ctx, vmm.Save{State: state})
	if err != nil {
		return vmm.Manifest{}, err
	}
	if _, err := finish(ctx); err != nil {
		return vmm.Manifest{}, err
	}
	return manifest, g.vm.Kill(ctx)
}

// finish makes the files durable, and the manifest after them.
func (b *builder) finish(ctx context.Context, vm vmm.Manifest) error {
	b.now("sealing the base snapshot")
	m := manifest{
		Format: format, Template: b.order.Template, Order: b.order, Secondary: b.secondary, Made: time.Now().UTC(), Size: b.size,
		Sources: sourcesOf(b.cfg, b.order), Defaults: b.state, Image: b.config, VMM: vm, Files: map[string]seal.Info{},
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		path := filepath.Join(b.dir, name)
		info, err := seal.File(ctx, path)
		if err != nil {
			return err
		}
		m.Files[name] = info
		if err := os.Chown(path, 0, 0); err != nil {
			return err
		}
	}
	// A driver that shares it opens it as each machine's user; only root gets into the directory otherwise.
	if err := os.Chmod(filepath.Join(b.dir, memoryName), 0o444); err != nil {
		return err
	}
	return durable.WriteJSON(filepath.Join(b.dir, manifestName), m, 0o600)
}

// final is the name of the directory when it's whole.
func (b *builder) final() string { return strings.TrimSuffix(b.dir, buildSuffix) }
