//go:build firecracker

package firecracker_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// TestADamagedSnapshot loads snapshots of which one file is another than it was. Each load says what is wrong; nothing is left.
func TestADamagedSnapshot(t *testing.T) {
	d, enclosure := driver(t, nil), jailed(t)
	b := makeBase(t, d, enclosure(t))
	other := otherState(t, enclosure(t))
	good, err := os.ReadFile(b.state)
	must(t, err)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 0x10
	for name, c := range map[string]struct {
		change func(t *testing.T, l *vmm.Load, dir string)
		want   string // in the error
	}{
		"no state":                   {state(nil), "Firecracker"},
		"half a state":               {state(good[:len(good)/2]), "Firecracker refuses"},
		"a state without its end":    {state(good[:len(good)-1]), "Firecracker refuses"},
		"a state with another bit":   {state(flipped), "CRC"},
		"a state of the wrong kind":  {state([]byte("this is nothing that loads")), "Firecracker refuses"},
		"a memory that is too short": {memory(ratioShape.MemoryBytes - 1<<20), "bytes, the machine"},
		"a memory that is too long":  {memory(ratioShape.MemoryBytes + 1<<20), "bytes, the machine"},
		"no memory":                  {func(_ *testing.T, l *vmm.Load, dir string) { l.Memory = filepath.Join(dir, "none") }, "no such file"},
		"a state of unknown size": {func(t *testing.T, l *vmm.Load, dir string) {
			l.State = filepath.Join(dir, "state")
			must(t, os.WriteFile(l.State, good, 0o600), os.Truncate(l.State, 17<<20))
		}, "has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := enclosure(t)
			k := &killer{Starter: e.Starter}
			e.Starter = k
			l := vmm.Load{Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest}
			c.change(t, &l, t.TempDir())
			ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
			defer cancel()
			m, err := d.Load(ctx, e, l)
			if err == nil {
				end(m)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || ctx.Err() != nil {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
			if k.pid != 0 {
				k.mustBeOver(t)
			}
		})
	}
	// Firecracker takes these two: nothing in a state says which memory it belongs to.
	for name, change := range map[string]func(*testing.T, *vmm.Load, string){
		"another machine's memory": memory(ratioShape.MemoryBytes), "another machine's state": state(other),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := vmm.Load{Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest}
			change(t, &l, t.TempDir())
			wantSilence(t, enclosure(t), l)
		})
	}
}

func state(b []byte) func(*testing.T, *vmm.Load, string) {
	return func(t *testing.T, l *vmm.Load, dir string) {
		l.State = filepath.Join(dir, "state")
		must(t, os.WriteFile(l.State, b, 0o600))
	}
}

func memory(bytes int64) func(*testing.T, *vmm.Load, string) {
	return func(t *testing.T, l *vmm.Load, dir string) {
		l.Memory = filepath.Join(dir, "memory")
		must(t, os.WriteFile(l.Memory, nil, 0o444), os.Truncate(l.Memory, bytes))
	}
}

// otherState is the device state of a machine with less memory. Nobody has talked to its guest.
func otherState(t *testing.T, e vmm.Enclosure) []byte {
	t.Helper()
	k, dir := vmmtest.Kernel(t), t.TempDir()
	own := filepath.Join(dir, "own")
	shape := vmm.Shape{VCPUs: 1, MemoryBytes: 128 << 20}
	must(t, os.WriteFile(own, nil, 0o600), os.Truncate(own, shape.MemoryBytes), os.Chown(own, e.UID, e.UID))
	m, err := driver(t, nil).Boot(t.Context(), e, vmm.Boot{Shape: shape, Kernel: k.Vmlinux, Initrd: k.Initrd, Memory: own})
	must(t, err)
	defer end(m)
	must(t, m.Pause(t.Context()))
	f, err := os.Create(filepath.Join(dir, "state"))
	must(t, err)
	defer f.Close()
	_, err = vmmtest.Save(t.Context(), m, f, nil)
	must(t, err)
	b, err := os.ReadFile(f.Name())
	must(t, err)
	return b
}

// wantSilence loads a machine whose guest can't answer: the load may succeed, but nobody is taken for the guest, and the deadline holds.
func wantSilence(t *testing.T, e vmm.Enclosure, l vmm.Load) {
	t.Helper()
	m, err := driver(t, nil).Load(t.Context(), e, l)
	if err != nil {
		return
	}
	defer end(m)
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if c, err := m.DialGuest(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, vmm.ErrGone) {
		t.Errorf("DialGuest = %v, %v", c, err)
	}
}

// TestAFullDisk saves a machine where there's no room. The error is ENOSPC, and the machine can then be saved elsewhere.
func TestAFullDisk(t *testing.T) {
	d, enclosure := driver(t, nil), jailed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*stepLimit)
	defer cancel()
	m, err := d.Boot(ctx, enclosure(t), ratioBoot(t))
	must(t, err)
	defer end(m)
	talk(t, m.DialGuest)
	small := t.TempDir()
	must(t, unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"))
	defer unix.Unmount(small, unix.MNT_DETACH)
	if _, err := saveSomewhere(ctx, t, m, small); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the save says %v, want ENOSPC", err)
	}
	// A state that has no room, next to a memory that has.
	filler := make([]byte, 2<<20)
	if err := os.WriteFile(filepath.Join(small, "filler"), filler, 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	full, err := os.Create(filepath.Join(small, "full"))
	must(t, err)
	defer full.Close()
	memory, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	must(t, err)
	defer memory.Close()
	if _, err := vmmtest.Save(ctx, m, full, memory); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the save of a state says %v, want ENOSPC", err)
	}
	dir := t.TempDir()
	from := vmm.Load{Shape: ratioShape, State: filepath.Join(dir, "state"), Memory: filepath.Join(dir, "memory")}
	from.Manifest, err = saveSomewhere(ctx, t, m, dir)
	must(t, err, os.Chmod(from.Memory, 0o444))
	c, err := d.Load(ctx, enclosure(t), from)
	must(t, err)
	defer end(c)
	talk(t, c.DialGuest)
}

// TestAnotherProcesssSocket puts a socket of this process in the place of each of Firecracker's. It's never talked to.
func TestAnotherProcesssSocket(t *testing.T) {
	d := driver(t, nil)
	e := jailed(t)(t)
	m, err := d.Boot(t.Context(), e, ratioBoot(t))
	must(t, err)
	defer end(m)
	for name, c := range map[string]struct {
		path string
		talk func(context.Context) error
	}{
		"API": {"run/api.sock", func(ctx context.Context) error { _, err := d.Recover(ctx, e, m.Handle()); return err }},
		"guest": {"run/link.sock", func(ctx context.Context) error {
			_, err := m.DialGuest(ctx)
			return err
		}},
	} {
		path := filepath.Join("/proc", strconv.Itoa(m.Handle().PID), "root", c.path)
		must(t, os.Remove(path))
		l, err := net.Listen("unix", path)
		must(t, err)
		heard := make(chan int, 64)
		go func() { // until the listener closes
			for {
				conn, err := l.Accept()
				if err != nil {
					close(heard)
					return
				}
				n, _ := conn.Read(make([]byte, 1))
				conn.Close()
				heard <- n
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		if err := c.talk(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the deadline", name, err)
		}
		cancel()
		l.Close()
		for n := range heard {
			if n != 0 {
				t.Errorf("%s: something was said to another process", name)
			}
		}
	}
}
