package template

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
)

func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, rootfs.Subcommand); i > 0 {
		os.Exit(rootfs.HelperMain(os.Args[i+1:]))
	}
	os.Exit(m.Run())
}

// rig is a host on which nothing boots: what a build can do right is proved with real machines.
type rig struct {
	t       *testing.T
	dir     string
	version string

	mu      sync.Mutex
	homes   map[string]bool
	changed chan struct{}
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, dir: t.TempDir(), version: "1", homes: map[string]bool{}, changed: make(chan struct{}, 1)}
}

func (r *rig) open(helper rootfs.Helper) *Store {
	r.t.Helper()
	s, err := Open(r.t.Context(), Config{
		Dir: r.dir, Volume: directories{}, Driver: r, Enclosures: r, UIDs: uids.New(5000, 5000), Kernel: kernel.Files{Digest: "k"}, Helper: helper,
		Changed: func() {
			select {
			case r.changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	return s
}

// await waits for the state of the only template.
func (r *rig) await(s *Store, state string) Report {
	r.t.Helper()
	for {
		if all := s.Reports(); len(all) == 1 && all[0].State == state {
			return all[0]
		}
		select {
		case <-r.changed:
		case <-time.After(20 * time.Second):
			r.t.Fatalf("the templates are %+v", s.Reports())
		}
	}
}

func (r *rig) checkNothingLeft(s *Store) {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil || len(entries) > 0 || len(r.homes) > 0 {
		r.t.Errorf("left are %v, %v, %v", entries, r.homes, err)
	}
	if _, err := s.cfg.UIDs.Take(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) Enclose(_ context.Context, s jail.Spec) (vmm.Enclosure, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.homes[s.ID] = true
	return vmm.Enclosure{ID: s.ID, UID: s.UID}, nil
}

func (r *rig) Remove(_ context.Context, s jail.Spec) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.homes, s.ID)
	return nil
}

func (r *rig) Name() string                   { return "test" }
func (r *rig) Capabilities() vmm.Capabilities { return vmm.Capabilities{Version: r.version} }

func (r *rig) Boot(_ context.Context, _ vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	for _, path := range []string{b.Disk, b.Memory} {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nothing boots here")
}

func (r *rig) Load(context.Context, vmm.Enclosure, vmm.Load) (vmm.Machine, error) {
	return nil, errors.New("nothing loads here")
}

func (r *rig) Recover(context.Context, vmm.Enclosure, vmm.Handle) (vmm.Machine, error) {
	return nil, vmm.ErrGone
}

// directories stands in for btrfs.
type directories struct{}

func (directories) Make(path string) error   { return os.Mkdir(path, 0o700) }
func (directories) Freeze(string) error      { return nil }
func (directories) Delete(path string) error { return os.RemoveAll(path) }

// put writes a template as a build leaves it.
func (r *rig) put(id string, change func(*manifest)) {
	r.t.Helper()
	recipe, err := rootfs.Find("mini")
	if err != nil {
		r.t.Fatal(err)
	}
	dir := filepath.Join(r.dir, space.HostLabel(id))
	if err := os.Mkdir(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	m := manifest{
		Format: format, Template: id, Recipe: "mini", Size: recipe.Size, Files: map[string]fileInfo{},
		Sources: sources{Recipe: recipe.Digest(), Kernel: "k", Driver: "test", Version: "1"},
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			r.t.Fatal(err)
		}
		m.Files[name] = fileInfo{Bytes: int64(len(name))}
	}
	change(&m)
	if err := durable.WriteJSON(filepath.Join(dir, manifestName), m, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func TestOnlyWholeAndCurrentTemplatesAreKept(t *testing.T) {
	for name, change := range map[string]func(*manifest){
		"kernel":       func(m *manifest) { m.Sources.Kernel = "old" },
		"recipe":       func(m *manifest) { m.Sources.Recipe = "old" },
		"driver":       func(m *manifest) { m.Sources.Version = "0" },
		"acceleration": func(m *manifest) { m.Sources.Acceleration = "kvm" },
		"format":       func(m *manifest) { m.Format++ },
		"length":       func(m *manifest) { m.Files[diskName] = fileInfo{Bytes: 1} },
		"unknown":      func(m *manifest) { m.Recipe = "nope" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(space.NewID(space.PrefixTemplate), change)
			s := r.open(rootfs.Self())
			if got := s.Reports(); len(got) > 0 {
				t.Errorf("kept %+v", got)
			}
			r.checkNothingLeft(s)
		})
	}
	r := newRig(t)
	id := space.NewID(space.PrefixTemplate)
	r.put(id, func(*manifest) {})
	if err := os.Mkdir(filepath.Join(r.dir, "x"+buildSuffix), 0o700); err != nil {
		t.Fatal(err)
	}
	s := r.open(rootfs.Self())
	if got := s.Reports(); len(got) != 1 || got[0].State != Ready || got[0].Template != id || got[0].Digest == "" {
		t.Fatalf("got %+v", got)
	}
	if err := s.Ensure(id, "mini", rootfs.Size{}); err != nil {
		t.Fatal(err)
	}
	r.await(s, Ready)
	snapshot, give, err := s.Borrow(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(snapshot.Memory); err != nil {
		t.Error(err)
	}
	give()
	s.Reject(id)
	if _, _, err := s.Borrow(id); space.CodeOf(err) != space.CodeTemplateNotReady {
		t.Errorf("a rejected template: %v", err)
	}
	r.checkNothingLeft(s)
}

func TestFailedBuildLeavesNothingAndStartsAnew(t *testing.T) {
	for name, helper := range map[string]rootfs.Helper{
		"the machine doesn't boot": rootfs.Self(),
		"the helper fails":         {Program: []string{"/bin/false"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			s, id := r.open(helper), space.NewID(space.PrefixTemplate)
			for range 2 {
				if err := s.Ensure(id, "mini", rootfs.Size{}); err != nil {
					t.Fatal(err)
				}
				if failed := r.await(s, Failed); failed.Err == nil {
					t.Error("no reason")
				}
			}
			if _, _, err := s.Borrow(id); space.CodeOf(err) != space.CodeTemplateNotReady {
				t.Errorf("a failed template: %v", err)
			}
			r.checkNothingLeft(s)
		})
	}
}

func TestClosedStoreHasEndedItsBuilds(t *testing.T) {
	r := newRig(t)
	s, id := r.open(rootfs.Helper{Program: []string{"/bin/sleep", "600"}}), space.NewID(space.PrefixTemplate)
	if err := s.Ensure(id, "mini", rootfs.Size{}); err != nil {
		t.Fatal(err)
	}
	r.await(s, Building)
	s.Close()
	r.checkNothingLeft(s)
	if err := s.Ensure(space.NewID(space.PrefixTemplate), "mini", rootfs.Size{}); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("a closed store: %v", err)
	}
}

func TestWrongOrdersNameTheirField(t *testing.T) {
	s := newRig(t).open(rootfs.Self())
	for recipe, size := range map[string]rootfs.Size{"nope": {}, "mini": {VCPUs: 1, MemoryBytes: 1, DiskBytes: 1}} {
		var e *space.Error
		if err := s.Ensure("tpl_x", recipe, size); !errors.As(err, &e) || e.Field == "" {
			t.Errorf("%s %v: %v", recipe, size, err)
		}
	}
}
