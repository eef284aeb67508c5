package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/vmm"
)

// The time limits of a build's machines, on a loaded machine under emulation.
const (
	bootTimeout = 2 * time.Minute // from the start to the guest's acknowledgement
	callTimeout = time.Minute     // for one call to the machine or the guest
	undoTimeout = 30 * time.Second
)

// secondaryWeight is how much of a scarce CPU the machine gets that makes a snapshot of another shape, in percent of what a sandbox gets: nobody
// waits for it.
const secondaryWeight = 25

// guest is a machine of a build, and what it's asked over.
type guest struct {
	vm       vmm.Machine
	link     *link.Link
	sessions *session.Set // that end before it does
}

// inMachine boots an ordinary jailed machine from the disk, without a network, and calls f with it: another machine if the first ends at its
// start, or its guest doesn't come up. The machine is gone when it returns. memory is the file that gets the machine's memory; "": none.
func (b *builder) inMachine(ctx context.Context, memory string, f func(context.Context, guest) error) error {
	err := b.inOneMachine(ctx, memory, f)
	if !errors.Is(err, machine.ErrUnmet) || ctx.Err() != nil {
		return err
	}
	b.said("the machine didn't come up; booting another one")
	if memory != "" {
		if err := os.Remove(memory); err != nil {
			return err
		}
	}
	return b.inOneMachine(ctx, memory, f)
}

// inOneMachine is inMachine with one try.
func (b *builder) inOneMachine(ctx context.Context, memory string, f func(context.Context, guest) error) (err error) {
	uid, err := b.cfg.UIDs.Take()
	if err != nil {
		return err
	}
	place := machine.Enclosure(b.order.Template, uid, b.shape())
	if b.secondary {
		place.Limits.CPUWeight = secondaryWeight
	}
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
		return err
	}
	if err := b.hand(uid, memory); err != nil {
		return err
	}
	m, err := b.boot(ctx, home, memory)
	if err != nil {
		return machine.Started(ctx, machine.Build, err)
	}
	defer m.Close()
	return b.visit(ctx, m, f)
}

func (b *builder) shape() vmm.Shape {
	return vmm.Shape{VCPUs: b.size.VCPUs, MemoryBytes: b.size.MemoryBytes}
}

// hand makes the memory file and gives it and the disk to the machine's uid.
func (b *builder) hand(uid int, memory string) error {
	if err := os.Chown(b.disk(), uid, uid); err != nil {
		return err
	}
	if memory == "" {
		return nil
	}
	f, err := os.OpenFile(memory, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(b.size.MemoryBytes); err != nil {
		return err
	}
	return f.Chown(uid, uid)
}

func (b *builder) boot(ctx context.Context, home vmm.Enclosure, memory string) (vmm.Machine, error) {
	b.now("booting a machine")
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var args []string
	if memory == "" { // it isn't kept: what counts is what it does to the disk
		args = []string{link.BuildArgument}
	}
	return b.cfg.Driver.Boot(ctx, home, vmm.Boot{
		Shape: b.shape(), Kernel: b.cfg.Kernel.For(b.size.VCPUs), Initrd: b.cfg.Kernel.Initrd, Args: args, Disk: b.disk(), Memory: memory,
	})
}

// visit greets the guest and calls f. The link is closed when it returns.
func (b *builder) visit(ctx context.Context, m vmm.Machine, f func(context.Context, guest) error) error {
	l, err := b.greet(ctx, m)
	if err != nil {
		return err
	}
	defer l.Close()
	dir, err := os.MkdirTemp(b.cfg.Dir, "sessions-*"+buildSuffix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sessions, err := session.Open(dir, session.Limits{}, slog.Default())
	if err != nil {
		return err
	}
	defer sessions.Close()
	sessions.Use(l)
	ctx, cancel := machine.WhileRunning(ctx, m)
	defer cancel()
	err = f(ctx, guest{vm: m, link: l, sessions: sessions})
	if err != nil && machine.Gone(m) {
		return space.Errorf(space.CodeGuest, "the machine ended by itself: it was shut down, or had too little memory: %w", err)
	}
	return err
}

func (b *builder) greet(ctx context.Context, m vmm.Machine) (*link.Link, error) {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	l, err := machine.Meet(ctx, m, machine.Build, link.Sync{Execution: space.NewID(space.PrefixExecution), Epoch: 1, Adopt: true, Hostname: rootfs.Hostname})
	if err != nil {
		return nil, fmt.Errorf("boot from the disk: %w", err)
	}
	return l, nil
}

// rest lets the guest come to rest: its sessions have ended, and everything is on its disk.
func (g guest) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := g.sessions.Settle(ctx); err != nil {
		return err
	}
	if err := machine.WriteOut(ctx, g.link); err != nil {
		return err
	}
	return machine.Quiesce(ctx, g.link)
}

// end ends the machine.
func (g guest) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return g.vm.Kill(ctx)
}
