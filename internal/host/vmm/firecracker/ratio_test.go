//go:build firecracker

package firecracker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// ratioRounds is how often each way is gone. The fastest counts: what else the machine does makes the others slower, and the median is told, too.
const ratioRounds = 9

// base is the snapshot that is loaded again and again, without a disk.
type base struct {
	state, memory string
	manifest      vmm.Manifest
}

// maxRatio is how much longer the driver may take than somebody who does the same by hand.
const maxRatio = 1.3

// TestRatios compares the driver with Firecracker driven by hand: its jailer executed, its API called, and nothing checked. The figures are logged,
// and judged where nothing else is done (see judged): how busy the machine is changes them.
func TestRatios(t *testing.T) {
	enclosure := jailed(t)
	w := &watch{took: map[string][]time.Duration{}}
	d := driver(t, func(c *firecracker.Config) { c.Trace = func(x api.Exchange) { w.note(x.Method + " " + x.Path) } })
	b := makeBase(t, d, enclosure(t))
	var load, save, handLoad, handSave []time.Duration
	for range ratioRounds {
		e := enclosure(t)
		w.Starter, e.Starter = e.Starter, w
		l, s := byDriver(t, d, b, e, w)
		load, save = append(load, l), append(save, s)
		l, s = byHand(t, b, enclosure(t))
		handLoad, handSave = append(handLoad, l), append(handSave, s)
	}
	for name, times := range map[string][2][]time.Duration{"fc_load_ratio": {load, handLoad}, "fc_snapshot_ratio": {save, handSave}} {
		for how, of := range map[string]func([]time.Duration) time.Duration{"fastest": slices.Min[[]time.Duration], "median": median} {
			ours, theirs := of(times[0]), of(times[1])
			t.Logf("%s, %s of %d: %.2f; %s by the driver, %s by hand", name, how, ratioRounds, float64(ours)/float64(theirs), ours.Round(time.Millisecond), theirs.Round(time.Millisecond))
		}
		if ratio := float64(slices.Min(times[0])) / float64(slices.Min(times[1])); judged() && ratio > maxRatio {
			t.Errorf("%s is %.2f, at most %.1f is right", name, ratio, maxRatio)
		}
	}
	for _, what := range []string{lent, "PUT /snapshot/create", takenBack} {
		t.Logf("of a save by the driver: %s after %s", what, median(w.took[what]).Round(time.Millisecond))
	}
}

// watch notes when a save has come how far. It's also the machine's Starter.
type watch struct {
	vmm.Starter
	begun time.Time // zero while no save is watched
	took  map[string][]time.Duration
}

// What a save does beside its calls.
const (
	lent      = "files lent"
	takenBack = "files taken back"
)

func (w *watch) note(what string) {
	if !w.begun.IsZero() {
		w.took[what] = append(w.took[what], time.Since(w.begun))
	}
}

func (w *watch) Lend(ctx context.Context, h vmm.Handle, files map[string]*os.File) (func() error, error) {
	back, err := w.Starter.Lend(ctx, h, files)
	w.note(lent)
	return func() error {
		defer w.note(takenBack)
		return back()
	}, err
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

var ratioShape = vmm.Shape{VCPUs: 1, MemoryBytes: 192 << 20}

func makeBase(t *testing.T, d *firecracker.Driver, e vmm.Enclosure) base {
	t.Helper()
	k := vmmtest.Kernel(t)
	dir := t.TempDir()
	b := base{state: filepath.Join(dir, "state"), memory: filepath.Join(dir, "memory")}
	must(t, os.WriteFile(b.memory, nil, 0o600), os.Truncate(b.memory, ratioShape.MemoryBytes), os.Chown(b.memory, e.UID, e.UID))
	m, err := d.Boot(t.Context(), e, vmm.Boot{Shape: ratioShape, Kernel: k.Vmlinux, Initrd: k.Initrd, Memory: b.memory})
	must(t, err)
	defer end(m)
	talk(t, m.DialGuest)
	must(t, m.Pause(t.Context()))
	state, err := os.Create(b.state)
	must(t, err)
	defer state.Close()
	b.manifest, err = vmmtest.Save(t.Context(), m, state, nil)
	must(t, err, os.Chmod(b.memory, 0o444), os.Chown(b.memory, 0, 0))
	return b
}

func byDriver(t *testing.T, d *firecracker.Driver, b base, e vmm.Enclosure, w *watch) (load, save time.Duration) {
	t.Helper()
	dir := t.TempDir()
	target := filepath.Join(dir, "memory")
	must(t, vmmtest.Clone(b.memory, target, 0))
	state, err := os.Create(filepath.Join(dir, "state"))
	must(t, err)
	defer state.Close()
	memory, err := os.OpenFile(target, os.O_RDWR, 0)
	must(t, err)
	defer memory.Close()
	begun := time.Now()
	m, err := d.Load(t.Context(), e, vmm.Load{Shape: ratioShape, State: b.state, Memory: b.memory, Manifest: b.manifest})
	load = time.Since(begun)
	must(t, err)
	defer end(m)
	talk(t, m.DialGuest)
	must(t, m.Pause(t.Context()))
	w.begun = time.Now()
	_, err = vmmtest.Save(t.Context(), m, state, memory)
	save, w.begun = time.Since(w.begun), time.Time{}
	must(t, err)
	return load, save
}

func byHand(t *testing.T, b base, e vmm.Enclosure) (load, save time.Duration) {
	t.Helper()
	jail, id := t.TempDir(), strings.ReplaceAll(e.ID, "_", "-")
	root := filepath.Join(jail, filepath.Base(os.Getenv(programVariable)), id, "root")
	must(t, os.MkdirAll(filepath.Join(root, "vm"), 0o755))
	own := func(name string) string { return filepath.Join(root, "vm", name) }
	must(t, vmmtest.Clone(b.state, own("state"), e.UID), os.Link(b.memory, own("memory")), vmmtest.Clone(b.memory, own("saved-memory"), e.UID))
	must(t, os.WriteFile(own("saved-state"), nil, 0o600), os.Chown(own("saved-state"), e.UID, e.UID), os.Chmod(own("saved-memory"), 0o600))
	uid := fmt.Sprint(e.UID)
	begun := time.Now()
	jailer := exec.CommandContext(t.Context(), os.Getenv(jailerVariable), "--id", id, "--exec-file", os.Getenv(programVariable), "--uid", uid, "--gid", uid,
		"--chroot-base-dir", jail, "--netns", e.NetNS, "--", "--api-sock", "/run/api.sock", "--level", "Warning")
	must(t, jailer.Start())
	defer jailer.Wait()
	defer jailer.Process.Kill()
	c := api.New(func(ctx context.Context) (net.Conn, error) { return dial(ctx, filepath.Join(root, "run/api.sock")) }, nil)
	defer c.Close()
	must(t, c.Load(t.Context(), api.Load{
		State: "/vm/state", Memory: api.Memory{Type: "File", Path: "/vm/memory"}, TrackDirty: true, Resume: true,
		Networks: []api.NetworkOverride{{ID: "net", Tap: e.Tap}},
	}))
	load = time.Since(begun)
	talk(t, func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx, filepath.Join(root, "run/link.sock"))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(conn, "CONNECT %d\n", link.VsockPort)
		for b := make([]byte, 1); b[0] != '\n'; {
			if _, err := conn.Read(b); err != nil {
				return nil, err
			}
		}
		return conn, nil
	})
	must(t, c.Pause(t.Context()))
	begun = time.Now()
	must(t, c.Save(t.Context(), api.Save{Type: api.Diff, State: "/vm/saved-state", Memory: "/vm/saved-memory"}))
	return load, time.Since(begun)
}

// dial connects to a socket that is there soon.
func dial(ctx context.Context, path string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// talk makes the guest answer, and hangs up.
func talk(t *testing.T, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		conn, err := dial(ctx)
		must(t, err)
		l, err := link.Host(ctx, conn, link.Sync{Execution: "exe_ratio", Epoch: 1, Adopt: true})
		if err == nil {
			l.Close()
			return
		}
		if ctx.Err() != nil { // else 1.15 has let us in too early: see awaitsReset
			t.Fatal(err)
		}
	}
}

func end(m vmm.Machine) {
	m.Kill(context.Background())
	m.Close()
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
