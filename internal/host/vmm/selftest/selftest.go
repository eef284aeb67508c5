// Package selftest finds out whether a driver works on this host, by doing once what sandboxes need all the time: boot, save, load, talk. That
// a program or a device exists proves nothing.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

const (
	tries    = 2                // of the whole test: on a busy host a guest now and then doesn't come up, and the next one does
	patience = 45 * time.Second // for a guest's first answer. It takes two to four seconds under emulation, and more on a loaded machine
)

// Shape is the smallest in which Debian's kernel for cloud guests boots with ease.
var Shape = vmm.Shape{VCPUs: 1, MemoryBytes: 192 << 20}

// Test is what it takes.
type Test struct {
	Driver         vmm.Driver
	Paged          bool // whether the loaded machine's memory is to come page by page
	Kernel, Initrd string
	Args           []string // more of the kernel's arguments
	Dir            string   // an existing directory, in which files are made and removed
	// Enclose makes a place for one machine. remove is called when the machine is gone, or couldn't be started.
	Enclose  func(ctx context.Context) (e vmm.Enclosure, remove func() error, err error)
	Patience time.Duration // for a guest's first answer; 0: 45 s
}

// Run returns nil if the driver works, else the first step that didn't and why. All is tried once more if a guest doesn't come up. Without hardware virtualisation it
// takes two to four seconds; the context bounds it. Nothing is left of it.
func (t Test) Run(ctx context.Context) (err error) {
	t.Patience = cmp.Or(t.Patience, patience)
	for range tries {
		if err = t.try(ctx); !errors.Is(err, machine.ErrUnmet) || ctx.Err() != nil {
			break
		}
	}
	return err
}

func (t Test) try(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "selftest-")
	if err != nil {
		return fmt.Errorf("test the %s driver: %w", t.Driver.Name(), err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := run{Test: t, state: filepath.Join(dir, "state"), memory: filepath.Join(dir, "memory")}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"boot and save", r.boot}, {"load", r.load}} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("test the %s driver: %s: %w", t.Driver.Name(), step.name, err)
		}
	}
	return nil
}

// run is a test under way. The memory file is the booted machine's, and then the loaded one's.
type run struct {
	Test
	state, memory string
	manifest      vmm.Manifest
}

func (r *run) boot(ctx context.Context) error {
	return r.inside(ctx, func(e vmm.Enclosure) error {
		if err := r.makeMemory(); err != nil {
			return err
		}
		if err := os.Chown(r.memory, e.UID, e.UID); err != nil {
			return err
		}
		m, err := r.Driver.Boot(ctx, e, vmm.Boot{Shape: Shape, Kernel: r.Kernel, Initrd: r.Initrd, Args: r.Args, Memory: r.memory})
		if err != nil {
			return machine.Started(ctx, machine.Test, err)
		}
		return r.use(ctx, m, func() error {
			if err := r.greet(ctx, m, 1); err != nil {
				return err
			}
			return r.save(ctx, m)
		})
	})
}

func (r *run) makeMemory() error {
	if err := os.WriteFile(r.memory, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(r.memory, Shape.MemoryBytes)
}

func (r *run) save(ctx context.Context, m vmm.Machine) error {
	if err := m.Pause(ctx); err != nil {
		return err
	}
	state, err := os.Create(r.state)
	if err != nil {
		return err
	}
	defer state.Close()
	manifest, finish, err := m.Save(ctx, vmm.Save{State: state})
	if err != nil {
		return err
	}
	r.manifest = manifest
	_, err = finish(ctx)
	return err
}

func (r *run) load(ctx context.Context) error {
	return r.inside(ctx, func(e vmm.Enclosure) error {
		if err := os.Chown(r.memory, e.UID, e.UID); err != nil {
			return err
		}
		l := vmm.Load{Shape: Shape, State: r.state, Memory: r.memory, Manifest: r.manifest}
		if r.Paged {
			l.Pages = &vmm.Pages{}
		}
		m, err := r.Driver.Load(ctx, e, l)
		if err != nil {
			return machine.Started(ctx, machine.Test, err)
		}
		return r.use(ctx, m, func() error { return r.greet(ctx, m, 2) })
	})
}

// inside calls f with an enclosure, which is removed afterwards.
func (r *run) inside(ctx context.Context, f func(vmm.Enclosure) error) error {
	e, remove, err := r.Enclose(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(e), remove())
}

// use calls f and ends the machine.
func (r *run) use(ctx context.Context, m vmm.Machine, f func() error) error {
	return errors.Join(f(), m.Kill(context.WithoutCancel(ctx)), m.Close())
}

// greet makes the guest answer the handshake, and a call.
func (r *run) greet(ctx context.Context, m vmm.Machine, epoch uint64) error {
	limited, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	l, err := machine.Meet(limited, m, machine.Test, link.Sync{Execution: "selftest", Epoch: epoch, Adopt: true})
	if err != nil {
		return err
	}
	defer l.Close()
	call, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{}}})
	if err != nil {
		return err
	}
	s, err := l.Open(ctx, call)
	if err != nil {
		return err
	}
	defer s.Reset(link.CodeCancelled)
	if _, err := s.Recv(ctx); err != nil {
		return fmt.Errorf("call the guest: %w", err)
	}
	return nil
}
