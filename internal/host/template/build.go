package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
)

// undoTimeout bounds the removal of what a build made.
const undoTimeout = 30 * time.Second

// builder makes one template.
type builder struct {
	cfg      *Config
	template string
	recipe   rootfs.Recipe
	sources  sources
	dir      string // where it's made
	progress func(line string)
}

// build makes the template and gives it its name. When it fails, nothing is left.
func (b builder) build(ctx context.Context, final string) (m manifest, digest string, err error) {
	if err := b.cfg.Volume.Delete(b.dir); err != nil {
		return m, "", err
	}
	if err := b.cfg.Volume.Make(b.dir); err != nil {
		return m, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.cfg.Volume.Delete(b.dir))
		}
	}()
	o := rootfs.Order{Dir: b.dir, Label: b.recipe.Name, Recipe: b.recipe.Name, DiskBytes: b.recipe.Size.DiskBytes}
	if _, err := b.cfg.Helper.Make(ctx, o, b.progress); err != nil {
		return m, "", err
	}
	vm, err := b.snapshot(ctx)
	if err != nil {
		return m, "", err
	}
	if m, err = b.finish(vm); err != nil {
		return m, "", err
	}
	if err := b.publish(final); err != nil {
		return m, "", err
	}
	return readManifest(final)
}

// snapshot boots a machine, warms it up and saves it. What it leaves is disk, memory and device state.
func (b builder) snapshot(ctx context.Context) (_ vmm.Manifest, err error) {
	uid, err := b.cfg.UIDs.Take()
	if err != nil {
		return vmm.Manifest{}, err
	}
	place := machine.Enclosure(b.template, uid, b.shape())
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		if rerr := b.cfg.Enclosures.Remove(undo, place); rerr != nil {
			err = errors.Join(err, rerr) // and the uid stays taken
			return
		}
		b.cfg.UIDs.Give(uid)
	}()
	home, err := b.cfg.Enclosures.Enclose(ctx, place)
	if err != nil {
		return vmm.Manifest{}, err
	}
	if err := b.hand(uid); err != nil {
		return vmm.Manifest{}, err
	}
	m, err := b.boot(ctx, home)
	if err != nil {
		return vmm.Manifest{}, err
	}
	defer m.Close()
	if err := b.warm(ctx, m); err != nil {
		return vmm.Manifest{}, err
	}
	return b.save(ctx, m)
}

func (b builder) shape() vmm.Shape {
	return vmm.Shape{VCPUs: b.recipe.Size.VCPUs, MemoryBytes: b.recipe.Size.MemoryBytes}
}

// hand makes the memory file and gives it and the disk to the machine's uid.
func (b builder) hand(uid int) error {
	memory := filepath.Join(b.dir, memoryName)
	f, err := os.OpenFile(memory, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(b.recipe.Size.MemoryBytes); err != nil {
		return err
	}
	for _, path := range []string{memory, filepath.Join(b.dir, diskName)} {
		if err := os.Chown(path, uid, uid); err != nil {
			return err
		}
	}
	return nil
}

func (b builder) boot(ctx context.Context, home vmm.Enclosure) (vmm.Machine, error) {
	b.progress("booting")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return b.cfg.Driver.Boot(ctx, home, vmm.Boot{
		Shape:  b.shape(),
		Kernel: b.cfg.Kernel.Vmlinux, Initrd: b.cfg.Kernel.Initrd,
		Disk: filepath.Join(b.dir, diskName), Memory: filepath.Join(b.dir, memoryName),
	})
}

// save pauses the machine, writes its device state and ends it. Nothing may reach the guest any more.
func (b builder) save(ctx context.Context, m vmm.Machine) (vmm.Manifest, error) {
	b.progress("saving the base snapshot")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := m.Pause(ctx); err != nil {
		return vmm.Manifest{}, err
	}
	state, err := os.OpenFile(filepath.Join(b.dir, stateName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return vmm.Manifest{}, err
	}
	defer state.Close()
	manifest, err := m.Save(ctx, state, nil)
	if err != nil {
		return vmm.Manifest{}, err
	}
	return manifest, m.Kill(ctx)
}

// finish makes the files durable, and the manifest after them.
func (b builder) finish(vm vmm.Manifest) (manifest, error) {
	b.progress("sealing the base snapshot")
	m := manifest{
		Format: format, Template: b.template, Recipe: b.recipe.Name, Made: time.Now().UTC(), Size: b.recipe.Size, Sources: b.sources, VMM: vm,
		Files: map[string]fileInfo{},
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		path := filepath.Join(b.dir, name)
		info, err := seal(path)
		if err != nil {
			return m, err
		}
		m.Files[name] = info
		if err := os.Chown(path, 0, 0); err != nil {
			return m, err
		}
	}
	return m, durable.WriteJSON(filepath.Join(b.dir, manifestName), m, 0o600)
}

// publish makes the directory read-only and gives it its name. It stays in its parent, which is all that btrfs allows then.
func (b builder) publish(final string) error {
	if err := b.cfg.Volume.Freeze(b.dir); err != nil {
		return err
	}
	if err := os.Rename(b.dir, final); err != nil {
		return fmt.Errorf("publish template %s: %w", b.template, err)
	}
	return durable.SyncDir(filepath.Dir(final))
}
