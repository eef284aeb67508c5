//go:build firecracker

package firecracker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/proc"
)

// stepLimit bounds one start, save or load where KVM itself runs in an emulated machine.
const stepLimit = time.Minute

// The moments at which the jailer has begun: it's what runs, and makes Firecracker's root directory; at which it has copied the program into that; and at which
// it has changed to it and made its devices.
const (
	atStart   = "start"
	atProgram = "the program in the root directory"
	atDevices = "devices in the root directory"
)

// jailersSteps are the paths by which some of these moments are known.
var jailersSteps = map[string][]string{
	atProgram: {"/jail/*/*/root/firecracker", "/firecracker"},
	atDevices: {"/dev/net/tun"},
}

// killer kills what an enclosure's Starter started, at one moment: of the jailer's, or when Firecracker has answered a call.
type killer struct {
	vmm.Starter
	at string

	watch sync.WaitGroup

	mu  sync.Mutex
	pid int
	id  proc.ID
}

func (k *killer) Start(ctx context.Context, c vmm.Command) (vmm.Process, error) {
	p, err := k.Starter.Start(ctx, c)
	if err != nil {
		return p, err
	}
	boot, err := proc.BootID()
	k.mu.Lock()
	k.pid, k.id = p.PID, proc.ID{PID: p.PID, StartTime: p.StartTime, BootID: boot}
	k.mu.Unlock()
	switch paths := jailersSteps[k.at]; {
	case k.at == atStart:
		k.kill()
	case paths != nil:
		k.watch.Go(func() { k.killWhen(ctx, paths) })
	}
	return p, err
}

// killWhen kills the process when one of some paths is there in its root directory.
func (k *killer) killWhen(ctx context.Context, paths []string) {
	for ctx.Err() == nil && k.id.Alive() {
		for _, path := range paths {
			if found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/root%s", k.id.PID, path)); len(found) > 0 { // it has no mistake
				k.kill()
				return
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func (k *killer) note(x api.Exchange) {
	if k.at == x.Method+" "+x.Path {
		k.kill()
	}
}

func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pid != 0 {
		unix.Kill(k.pid, unix.SIGKILL)
	}
}

// mustBeOver fails the test if what was started runs still.
func (k *killer) mustBeOver(t *testing.T) {
	t.Helper()
	k.watch.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pid == 0 {
		t.Error("nothing was started")
	} else if k.id.Alive() {
		t.Errorf("process %d still runs", k.pid)
	}
}

// TestADeathAtEachStep kills the jailer in three of its steps, and then Firecracker at each call of a boot, of a load and of a save. The error says so, and nothing is left: the
// enclosure is removed after each, and the jail is swept after all.
func TestADeathAtEachStep(t *testing.T) {
	enclosure, boot := jailed(t), ratioBoot(t)
	b := makeBase(t, driver(t, nil), enclosure(t))
	load := vmm.Load{Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest}
	for _, c := range []struct {
		name  string
		start func(context.Context, *firecracker.Driver, vmm.Enclosure) (vmm.Machine, error)
		calls []string
	}{
		{"boot", func(ctx context.Context, d *firecracker.Driver, e vmm.Enclosure) (vmm.Machine, error) {
			return d.Boot(ctx, e, boot)
		}, []string{
			atStart, atProgram, atDevices, "GET /", "PUT /machine-config", "PUT /boot-source", "PUT /vsock", "PUT /network-interfaces/net", "PUT /entropy", "PUT /actions",
		}},
		{"load", func(ctx context.Context, d *firecracker.Driver, e vmm.Enclosure) (vmm.Machine, error) {
			return d.Load(ctx, e, load)
		}, []string{
			atStart, atProgram, atDevices, "GET /", "PUT /snapshot/load", "PATCH /network-interfaces/net", "PATCH /vm",
		}},
		{"save", func(ctx context.Context, d *firecracker.Driver, e vmm.Enclosure) (vmm.Machine, error) {
			m, err := d.Load(ctx, e, load)
			if err != nil {
				return nil, err
			}
			_, err = saveSomewhere(ctx, t, m, t.TempDir())
			return m, err
		}, []string{"PUT /snapshot/create"}},
	} {
		for _, call := range c.calls {
			t.Run(c.name+", "+call, func(t *testing.T) {
				t.Parallel()
				e := enclosure(t)
				k := &killer{Starter: e.Starter, at: call}
				e.Starter = k
				d := driver(t, func(c *firecracker.Config) { c.Trace = k.note })
				ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
				defer cancel()
				m, err := c.start(ctx, d, e)
				if err == nil { // it was the last call
					err = mustBeGone(ctx, t, m)
				} else if m != nil {
					defer m.Close()
				}
				if err == nil || ctx.Err() != nil {
					t.Errorf("the error is %v, after %v", err, ctx.Err())
				}
				k.mustBeOver(t)
			})
		}
	}
}

// mustBeGone waits for the end of a machine that was killed, and returns what a call on it says.
func mustBeGone(ctx context.Context, t *testing.T, m vmm.Machine) error {
	t.Helper()
	defer m.Close()
	select {
	case <-m.Done():
	case <-ctx.Done():
		t.Error("Done isn't closed")
	}
	err := m.Pause(ctx)
	if !errors.Is(err, vmm.ErrGone) {
		t.Errorf("a pause says %v, want ErrGone", err)
	}
	return err
}

// ratioBoot is a boot without a disk, and without a file for its memory.
func ratioBoot(t *testing.T) vmm.Boot {
	k := vmmtest.Kernel(t)
	return vmm.Boot{Shape: ratioShape, Kernel: k.Vmlinux, Initrd: k.Initrd}
}

// saveSomewhere pauses a machine and saves it into a directory, with all its memory or, if it was loaded, what has changed.
func saveSomewhere(ctx context.Context, t *testing.T, m vmm.Machine, dir string) (vmm.Manifest, error) {
	t.Helper()
	if err := m.Pause(ctx); err != nil {
		return vmm.Manifest{}, err
	}
	state, err := os.Create(filepath.Join(dir, "state"))
	must(t, err)
	defer state.Close()
	memory, err := os.Create(filepath.Join(dir, "memory"))
	must(t, err)
	defer memory.Close()
	must(t, memory.Truncate(ratioShape.MemoryBytes))
	manifest, err := vmmtest.Save(ctx, m, state, memory)
	for _, f := range []*os.File{state, memory} {
		var st unix.Stat_t
		if must(t, unix.Fstat(int(f.Fd()), &st)); st.Uid != 0 {
			t.Errorf("%s stays uid %d's", f.Name(), st.Uid)
		}
	}
	return manifest, err
}

// TestADeathWhileMemoryIsWritten kills Firecracker when part of a machine's memory is in the file.
func TestADeathWhileMemoryIsWritten(t *testing.T) {
	e := jailed(t)(t)
	k := &killer{Starter: e.Starter}
	e.Starter = k
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepLimit)
	defer cancel()
	m, err := driver(t, nil).Boot(ctx, e, ratioBoot(t))
	must(t, err)
	defer m.Close()
	talk(t, m.DialGuest) // its memory is used
	dir := t.TempDir()
	var watch sync.WaitGroup
	watch.Go(func() {
		var st unix.Stat_t
		for unix.Stat(filepath.Join(dir, "memory"), &st) != nil || st.Blocks == 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		k.kill()
	})
	if _, err := saveSomewhere(ctx, t, m, dir); !errors.Is(err, vmm.ErrGone) {
		t.Errorf("the save says %v, want ErrGone", err)
	}
	watch.Wait()
	k.mustBeOver(t)
}
