package firecracker_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
)

var shape = vmm.Shape{VCPUs: 1, MemoryBytes: 1 << 20}

// faultLimit is the deadline of a call that would hang, hangLimit that of a start among many others, which must get as far as to hang.
const (
	faultLimit = 500 * time.Millisecond
	hangLimit  = 2 * time.Second
)

// file makes one of a size.
func file(t *testing.T, name string, bytes int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, bytes)); err != nil {
		t.Fatal(err)
	}
	return path
}

func bootOf(t *testing.T) vmm.Boot {
	return vmm.Boot{Shape: shape, Kernel: file(t, "kernel", 1), Initrd: file(t, "initrd", 1), Disk: file(t, "disk", 1), Memory: file(t, "memory", shape.MemoryBytes)}
}

// saved is a snapshot of a twin.
func saved(t *testing.T, d *firecracker.Driver) vmm.Load {
	t.Helper()
	s := &twins{t: t}
	m, err := d.Boot(t.Context(), s.enclosure(), bootOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	defer m.Kill(context.Background())
	state := open(t, file(t, "state", 0))
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	manifest, _, err := m.Save(t.Context(), vmm.Save{State: state})
	if err != nil {
		t.Fatal(err)
	}
	return vmm.Load{Shape: shape, State: state.Name(), Memory: file(t, "memory", shape.MemoryBytes), Disk: file(t, "disk", 1), Manifest: manifest}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// faults are what may happen at each call, and what the error is.
var faults = map[string]func(error) bool{
	"refuse": func(err error) bool {
		var f *api.Fault
		return errors.As(err, &f) && f.Status == 400 && f.Message == "the twin refuses"
	},
	"exit":    func(err error) bool { return strings.Contains(err.Error(), "the twin's last words") },
	"hang":    func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
	"half":    func(err error) bool { return errors.Is(err, api.ErrBroken) },
	"garbage": func(err error) bool { return errors.Is(err, api.ErrBroken) },
	"flood":   func(err error) bool { return strings.Contains(err.Error(), "more than 65536 bytes") },
}

// A start that fails at any call says why, in time, and leaves no process.
func TestEachCallOfAStartMayFail(t *testing.T) {
	d := twinDriver(t)
	boot, load := bootOf(t), saved(t, d)
	var all sync.WaitGroup // most of the time is spent waiting for the news of a death
	for name, c := range map[string]struct {
		start func(context.Context, vmm.Enclosure) (vmm.Machine, error)
		calls []string
	}{
		"boot": {func(ctx context.Context, e vmm.Enclosure) (vmm.Machine, error) { return d.Boot(ctx, e, boot) }, []string{
			"start", "GET /", "PUT /machine-config", "PUT /boot-source", "PUT /vsock", "PUT /drives/disk", "PUT /network-interfaces/net",
			"PUT /entropy", "PUT /actions",
		}},
		"load": {func(ctx context.Context, e vmm.Enclosure) (vmm.Machine, error) { return d.Load(ctx, e, load) }, []string{
			"start", "GET /", "PUT /snapshot/load", "PATCH /network-interfaces/net", "PATCH /vm",
		}},
	} {
		for _, call := range c.calls {
			for fault, expected := range faults {
				if call == "start" && fault != "exit" && fault != "hang" {
					continue
				}
				s := &twins{t: t, orders: twinOrders{At: call, Fault: fault}}
				e := s.enclosure()
				all.Go(func() {
					limit := time.Minute
					if fault == "hang" {
						limit = hangLimit
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					m, err := c.start(ctx, e)
					if err == nil {
						m.Kill(t.Context())
					}
					if err == nil || !expected(err) {
						t.Errorf("%s, %s at %s: the error is %v", name, fault, call, err)
					}
					s.mustBeOver()
				})
			}
		}
	}
	all.Wait()
}

// started boots a twin that fails later.
func started(t *testing.T, o twinOrders) vmm.Machine {
	t.Helper()
	s := &twins{t: t, orders: o}
	m, err := twinDriver(t).Boot(t.Context(), s.enclosure(), bootOf(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Kill(context.Background()); m.Close() })
	return m
}

// A save that fails says why, and the machine can be saved again or go on.
func TestASaveMayFail(t *testing.T) {
	for fault, expected := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			m := started(t, twinOrders{At: "PUT /snapshot/create", Fault: fault})
			if err := m.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
			limit := time.Minute
			if fault == "hang" {
				limit = faultLimit
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			state := open(t, file(t, "state", 0))
			_, _, err := m.Save(ctx, vmm.Save{State: state})
			if fault == "exit" {
				expected = func(err error) bool { return errors.Is(err, vmm.ErrGone) }
			}
			if err == nil || !expected(err) {
				t.Errorf("the error is %v", err)
			}
			if fault == "exit" {
				<-m.Done()
				return
			}
			if err := m.Pause(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// TestASaveOverTheLastOneIsADiff of a machine that was booted: over anything else all of its memory is written.
func TestASaveOverTheLastOneIsADiff(t *testing.T) {
	s := &twins{t: t}
	b := bootOf(t)
	b.Memory = ""
	d := twinDriver(t)
	m, err := d.Boot(t.Context(), s.enclosure(), b)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { m.Kill(context.Background()); m.Close() }()
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	const mark = "what was there"
	save := func(name, earlier string) (kept bool) {
		t.Helper()
		memory := open(t, file(t, "memory", shape.MemoryBytes))
		if _, err := memory.WriteAt([]byte(mark), 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := m.Save(t.Context(), vmm.Save{State: open(t, file(t, "state", 0)), Memory: memory, Name: name, Earlier: earlier}); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(mark))
		if _, err := memory.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		return string(got) == mark
	}
	saves := []struct {
		name, earlier, want string
		kept                bool
	}{
		{"a", "", api.Diff, false}, // since it was booted
		{"b", "a", api.Diff, true},
		{"c", "b", api.Diff, true},
		{"d", "b", api.Full, false}, // which isn't the last
		{"", "d", api.Diff, true},
		{"e", "", api.Full, false}, // the last one had no name
	}
	for _, c := range saves {
		if kept := save(c.name, c.earlier); kept != c.kept {
			t.Errorf("save %q over %q: what was in the file is still there: %v", c.name, c.earlier, kept)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.root, "saves"))
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		var o api.Save
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Type)
	}
	for _, c := range saves {
		want = append(want, c.want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("it was to save %v, want %v", got, want)
	}
}

func TestOnlyAPausedMachineIsSaved(t *testing.T) {
	m := started(t, twinOrders{})
	if _, _, err := m.Save(t.Context(), vmm.Save{State: open(t, file(t, "state", 0))}); err == nil || !strings.Contains(err.Error(), "isn't paused") {
		t.Errorf("saved: %v", err)
	}
}

func TestTheGuestIsReachedWhenItListens(t *testing.T) {
	m := started(t, twinOrders{})
	c, err := m.DialGuest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const word = "the guest's first word"
	b := make([]byte, len(word))
	if n, err := c.Read(b); err != nil || string(b[:n]) != word {
		t.Errorf("it says %q, %v", b[:n], err)
	}
}

func TestAGuestThatIsNotReachedHoldsNobodyUp(t *testing.T) {
	for _, port := range []string{"shut", "hang", "garbage", "flood"} {
		t.Run(port, func(t *testing.T) {
			t.Parallel()
			m := started(t, twinOrders{Port: port})
			ctx, cancel := context.WithTimeout(t.Context(), faultLimit)
			defer cancel()
			begun := time.Now()
			if c, err := m.DialGuest(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("DialGuest = %v, %v", c, err)
			}
			if took := time.Since(begun); took > 10*faultLimit {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	for versions, want := range map[[2]string]string{
		{"1.14.2", "1.14.2"}: "isn't supported: 1.16.x and 1.15.x are",
		{"2.0.0", "2.0.0"}:   "isn't supported",
		{"1.16.1", "1.16.0"}: "must be of one release",
		{"nonsense", "1.16"}: "no version of a release",
	} {
		if _, err := firecracker.New(t.Context(), install(t, versions[0], versions[1])); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", versions, err, want)
		}
	}
	swapped := install(t, "1.16.1", "1.16.1")
	swapped.Program, swapped.Jailer = swapped.Jailer, swapped.Program
	if _, err := firecracker.New(t.Context(), swapped); err == nil || !strings.Contains(err.Error(), "it's the Jailer, not the Firecracker") {
		t.Errorf("the two in each other's place: %v", err)
	}
	if _, err := firecracker.New(t.Context(), firecracker.Config{}); err == nil {
		t.Error("no paths are fine")
	}
}

func TestALoadChecksTheManifestFirst(t *testing.T) {
	d := twinDriver(t)
	good := saved(t, d)
	for name, change := range map[string]func(*vmm.Load){
		"version": func(l *vmm.Load) { l.Manifest.Version = "1.15.1" },
		"cpu":     func(l *vmm.Load) { l.Manifest.CPU = "GenuineIntel-6-1-1" },
		"driver":  func(l *vmm.Load) { l.Manifest.Driver = "qemu" },
		"devices": func(l *vmm.Load) { l.Disk = "" },
	} {
		l := good
		change(&l)
		s := &twins{t: t}
		if _, err := d.Load(t.Context(), s.enclosure(), l); !errors.Is(err, vmm.ErrIncompatible) {
			t.Errorf("%s: %v, want ErrIncompatible", name, err)
		}
		if len(s.started) > 0 {
			t.Errorf("%s: a process was started", name)
		}
	}
}
