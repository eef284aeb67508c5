package template

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/host/vmm"
)

func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, rootfs.Subcommand); i > 0 {
		os.Exit(rootfs.HelperMain(os.Args[i+1:]))
	}
	os.Exit(m.Run())
}

// endless is a helper that makes nothing.
var endless = rootfs.Helper{Program: []string{"/bin/sh", "-c", "exec sleep 600"}}

// rig is a host on which nothing boots: what a build can do right is proved with real machines.
type rig struct {
	t          *testing.T
	dir        string
	version    string
	kernel     string   // digest
	insecure   []string // registries
	uploads    Uploads
	onBoot     func()
	room       func() error
	promises   *promise.Ledger
	seals      bool // machines share memory that is sealed
	retryPause time.Duration

	mu      sync.Mutex
	homes   map[string]bool
	boots   int
	unmet   int // the first so many machines boot, and end before their guests answer
	dead    int // the first so many machines end while they start
	changed chan struct{}
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, dir: t.TempDir(), promises: promise.New(64 << 30), version: "1", kernel: "k", homes: map[string]bool{}, changed: make(chan struct{}, 1), uploads: noUploads{}, onBoot: func() {}, room: func() error { return nil }, retryPause: time.Microsecond}
}

func (r *rig) open(helper rootfs.Helper) *Store {
	r.t.Helper()
	s, err := Open(r.t.Context(), Config{
		Dir: filepath.Join(r.dir, "templates"), Layers: filepath.Join(r.dir, "layers"), Sets: filepath.Join(r.dir, "sets"), LayerBytes: 1 << 30, Blobs: filepath.Join(r.dir, "blobs"), Insecure: r.insecure,
		Volume: directories{}, Clone: copyFile, Room: func() error { return r.room() }, Memory: func() (meminfo.Facts, error) { return meminfo.Facts{Total: 8 << 30, Available: 8 << 30}, nil }, Uploads: r.uploads, Promises: r.promises,
		Driver: r, Enclosures: r, UIDs: uids.New(5000, 5000), Kernel: kernel.Files{Digest: r.kernel}, Helper: helper, retryPause: r.retryPause,
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

// awaitProgress waits until the only template is being built and says so.
func (r *rig) awaitProgress(s *Store, progress string) {
	r.t.Helper()
	for r.await(s, Building).Progress != progress {
		select {
		case <-r.changed:
		case <-time.After(20 * time.Second):
			r.t.Fatalf("the templates are %+v", s.Reports())
		}
	}
}

func (r *rig) checkNothingLeft(s *Store) {
	r.t.Helper()
	entries, err := os.ReadDir(filepath.Join(r.dir, "templates"))
	if err != nil || len(entries) > 0 || len(r.homes) > 0 {
		r.t.Errorf("left are %v, %v, %v", entries, r.homes, err)
	}
	if sets, err := os.ReadDir(filepath.Join(r.dir, "sets")); err != nil || len(sets) > 0 {
		r.t.Errorf("left are the working sets %v, %v", sets, err)
	}
	if left := r.promises.Left(); left != r.promises.Most() {
		r.t.Errorf("%d bytes of memory are still promised", r.promises.Most()-left)
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

func (r *rig) Name() string { return "test" }
func (r *rig) Capabilities() vmm.Capabilities {
	return vmm.Capabilities{Version: r.version, SealedMemory: r.seals}
}

func (r *rig) Boot(_ context.Context, _ vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	r.boots++
	r.onBoot()
	if _, err := os.Stat(b.Disk); err != nil {
		return nil, err
	}
	if r.boots <= r.dead {
		return nil, vmm.ErrGone
	}
	if r.boots <= r.unmet {
		return stillborn{}, nil
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

// copyFile stands in for a clone.
func copyFile(from, to string, _ int) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

type noUploads struct{}

func (noUploads) Use(id string) (upload.File, func(), error) {
	return upload.File{}, nil, space.Errorf(space.CodeNotFound, "no upload %s", id)
}

// mini is an order of the smallest template.
func mini(id string) Order { return Order{Template: id, Recipe: "mini"} }

// put writes a template as a build leaves it.
func (r *rig) put(o Order, change func(*manifest)) {
	r.t.Helper()
	size, err := o.sized()
	if err != nil {
		r.t.Fatal(err)
	}
	m := manifest{Format: format, Template: o.Template, Order: o, Size: size, Made: time.Now(), Files: map[string]seal.Info{}}
	m.Sources = sourcesOf(&Config{Driver: r, Kernel: kernel.Files{Digest: r.kernel}}, o)
	change(&m)
	dir := filepath.Join(r.dir, "templates", space.HostLabel(o.Template)+"-"+strings.ToLower(rand.Text()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{diskName, memoryName, stateName} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			r.t.Fatal(err)
		}
		if _, ok := m.Files[name]; ok {
			continue
		}
		var err error
		if m.Files[name], err = seal.File(r.t.Context(), filepath.Join(dir, name)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := durable.WriteJSON(filepath.Join(dir, manifestName), m, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func TestOnlyWholeAndUsefulTemplatesAreKept(t *testing.T) {
	for name, change := range map[string]func(*manifest){
		"format":    func(m *manifest) { m.Format++ },
		"length":    func(m *manifest) { m.Files[diskName] = seal.Info{Bytes: 1} },
		"unknown":   func(m *manifest) { m.Order.Recipe = "nope" },
		"another":   func(m *manifest) { m.Template = space.NewID(space.PrefixTemplate) },
		"no source": func(m *manifest) { m.Order.Recipe = "" },
		"orphan":    func(m *manifest) { m.Secondary = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(mini(space.NewID(space.PrefixTemplate)), change)
			if err := os.Mkdir(filepath.Join(r.dir, "templates", "x"+buildSuffix), 0o700); err != nil {
				t.Fatal(err)
			}
			s := r.open(rootfs.Self())
			if got := s.Reports(); len(got) > 0 {
				t.Errorf("kept %+v", got)
			}
			r.checkNothingLeft(s)
		})
	}
}

func TestTemplateIsBorrowed(t *testing.T) {
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	r.put(mini(id), func(*manifest) {})
	other := rootfs.Size{VCPUs: 2, MemoryBytes: 256 * mib, DiskBytes: 128 * mib}
	r.put(mini(id), func(m *manifest) { m.Secondary, m.Size = true, other })
	stray := filepath.Join(r.dir, "sets", "of-nobody.new")
	if err := errors.Join(os.Mkdir(filepath.Dir(stray), 0o700), os.WriteFile(stray, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	s := r.open(rootfs.Self())
	if _, err := os.Stat(stray); err == nil {
		t.Error("the working set of a snapshot that is gone is still there")
	}
	if got := s.Reports(); len(got) != 1 || got[0].State != Ready || got[0].Template != id || got[0].Digest == "" {
		t.Fatalf("got %+v", got)
	}
	if err := s.Ensure(mini(id)); err != nil {
		t.Fatal(err)
	}
	r.await(s, Ready)
	for size, want := range map[rootfs.Size]rootfs.Size{{}: r.size(s), other: other, {VCPUs: 3, MemoryBytes: 1}: r.size(s)} {
		snapshot, give, err := s.SnapshotFor(id, size)
		if err != nil || snapshot.Size != want {
			t.Fatalf("%v: %v, %v", size, snapshot.Size, err)
		}
		if _, err := os.Stat(snapshot.Memory); err != nil {
			t.Error(err)
		}
		if snapshot.Digest == "" {
			t.Error("a snapshot has no name")
		}
		if err := os.WriteFile(snapshot.WorkingSet, nil, 0o600); err != nil {
			t.Error(err)
		}
		give()
	}
	for range 2 {
		if err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Borrow(id); space.CodeOf(err) != space.CodeTemplateNotReady {
		t.Errorf("a removed template: %v", err)
	}
	r.checkNothingLeft(s)
}

func (r *rig) size(s *Store) rootfs.Size { return s.Reports()[0].Size }

func TestSnapshotThatDoesNotFitIsMadeAnewFromItsDisk(t *testing.T) {
	for name, change := range map[string]func(*manifest){
		"driver":       func(m *manifest) { m.Sources.Version = "0" },
		"acceleration": func(m *manifest) { m.Sources.Acceleration = "kvm" },
	} {
		t.Run(name, func(t *testing.T) {
			r, id := newRig(t), space.NewID(space.PrefixTemplate)
			r.put(mini(id), change)
			s := r.open(rootfs.Self())
			r.await(s, Failed) // nothing boots here
			if r.boots != maxBroken {
				t.Errorf("%d machines booted", r.boots)
			}
			if _, err := os.Stat(s.templates[id].base.file(diskName)); err != nil {
				t.Errorf("its disk is gone: %v", err)
			}
			if err := s.Remove(id); err != nil {
				t.Fatal(err)
			}
			r.checkNothingLeft(s)
		})
	}
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	r.put(mini(id), func(*manifest) {})
	s := r.open(rootfs.Self())
	s.Reject(id)
	r.await(s, Failed)
}

func TestOfTwoSnapshotsTheNewerStays(t *testing.T) {
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	for _, age := range []time.Duration{time.Hour, 0, 2 * time.Hour} {
		r.put(mini(id), func(m *manifest) { m.Made = m.Made.Add(-age) })
	}
	s := r.open(rootfs.Self())
	if made := s.templates[id].base.m.Made; time.Since(made) > time.Minute {
		t.Errorf("kept the one of %s", made)
	}
	if entries, err := os.ReadDir(s.cfg.Dir); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
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
				if err := s.Ensure(mini(id)); err != nil {
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
	s, id := r.open(endless), space.NewID(space.PrefixTemplate)
	if err := s.Ensure(mini(id)); err != nil {
		t.Fatal(err)
	}
	r.await(s, Building)
	s.Close()
	r.checkNothingLeft(s)
	if err := s.Ensure(mini(space.NewID(space.PrefixTemplate))); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("a closed store: %v", err)
	}
}

func TestRemovedTemplateHasEndedItsBuild(t *testing.T) {
	r := newRig(t)
	s := r.open(endless)
	first, second := space.NewID(space.PrefixTemplate), space.NewID(space.PrefixTemplate)
	for _, id := range []string{first, second} { // one of them waits for the other
		if err := s.Ensure(mini(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{second, first} {
		if err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Reports(); len(got) > 0 {
		t.Errorf("left are %+v", got)
	}
	r.checkNothingLeft(s)
}

func TestWrongOrdersNameTheirField(t *testing.T) {
	s, id := newRig(t).open(rootfs.Self()), space.NewID(space.PrefixTemplate)
	long := strings.Repeat("x", maxCommand+1)
	for field, o := range map[string]Order{
		"source":             {},
		"recipe":             {Recipe: "nope"},
		"debian.suite":       {Debian: &rootfs.Debian{Suite: "../x"}},
		"debian.packages":    {Debian: &rootfs.Debian{Suite: "sid", Packages: []string{"--option"}}},
		"image":              {Image: "Not A Reference"},
		"shape.disk_bytes":   {Recipe: "mini", Size: rootfs.Size{DiskBytes: 1}},
		"shape.memory_bytes": {Image: "a", Size: rootfs.Size{MemoryBytes: 1}},
		"shape.vcpus":        {Image: "a", Size: rootfs.Size{VCPUs: 33}},
		"steps":              {Image: "a", Steps: make([]Step, maxSteps+1)},
		"steps[0]":           {Image: "a", Steps: []Step{{}}},
		"steps[1]":           {Image: "a", Steps: []Step{{Run: "true"}, {Run: long}}},
		"start_command":      {Image: "a", Start: long},
		"ready_check":        {Image: "a", Ready: long},
		"defaults":           {Image: "a", Defaults: Defaults{Workdir: strings.Repeat("/", maxPath+1)}},
	} {
		o.Template = id
		var e *space.Error
		if err := s.Ensure(o); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, step := range []Step{{Copy: &Copy{To: "x"}}, {Run: "x", Copy: &Copy{To: "/x"}}, {Set: &Defaults{Env: map[string]string{"A": strings.Repeat("x", maxEnv)}}}} {
		if err := s.Ensure(Order{Template: id, Image: "a", Steps: []Step{step}}); space.CodeOf(err) != space.CodeInvalid {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	s := newRig(t).open(endless)
	ensure := func(project string) error {
		o := mini(space.NewID(space.PrefixTemplate))
		o.Project = project
		return s.Ensure(o)
	}
	for range maxOwnQueue {
		if err := ensure("one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ensure("one"); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("one more of the project: %v", err)
	}
	for n := range maxQueue - maxOwnQueue {
		if err := ensure(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ensure("another"); space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("one more: %v", err)
	}
}

// TestProjectHoldsUpNoOther has a project order more builds than can be at work, none of which ends, and then another one.
func TestProjectHoldsUpNoOther(t *testing.T) {
	r := newRig(t)
	s := r.open(endless)
	var last string
	for _, project := range []string{"one", "one", "one", "one", "other"} {
		o := mini(space.NewID(space.PrefixTemplate))
		o.Project, last = project, o.Template
		if err := s.Ensure(o); err != nil {
			t.Fatal(err)
		}
	}
	atWork := func() (n int, other bool) {
		for _, x := range s.Reports() {
			if x.Progress != waiting {
				n++
				other = other || x.Template == last
			}
		}
		return n, other
	}
	for deadline := time.After(20 * time.Second); ; {
		if n, other := atWork(); n == maxBuilds && other {
			break
		}
		select {
		case <-r.changed:
		case <-deadline:
			t.Fatalf("the templates are %+v", s.Reports())
		}
	}
	if err := s.Remove(last); err != nil {
		t.Fatal(err)
	}
	if n, _ := atWork(); n != maxProjectBuilds {
		t.Errorf("%d builds of the project are at work, want %d", n, maxProjectBuilds)
	}
}

func TestFailedStepIsNamed(t *testing.T) {
	r := newRig(t)
	s, id := r.open(rootfs.Self()), space.NewID(space.PrefixTemplate)
	o := mini(id)
	o.Steps = []Step{{Set: &Defaults{User: "root"}}, {Run: "true"}}
	if err := s.Ensure(o); err != nil {
		t.Fatal(err)
	}
	failed := r.await(s, Failed) // nothing boots here
	if failed.FailedStep != 2 || len(failed.Log) == 0 || failed.Log[0].Step != 0 || failed.Log[len(failed.Log)-1].Step != 2 {
		t.Errorf("step %d failed, log %+v", failed.FailedStep, failed.Log)
	}
	s.Acknowledge(map[string]uint64{id: failed.Log[len(failed.Log)-1].Number, "tpl_unknown": 3})
	if left := s.Reports()[0].Log; len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
	if layers, err := os.ReadDir(s.cfg.Layers); err != nil || len(layers) != 1 {
		t.Errorf("the source's disk isn't kept: %v, %v", layers, err)
	}
	r.checkNothingLeft(s)
	o.Steps = append(o.Steps, Step{Copy: &Copy{Upload: "upl_x", To: "/x"}})
	o.Template = space.NewID(space.PrefixTemplate)
	if err := s.Remove(id); err != nil {
		t.Fatal(err)
	}
	if err := s.Ensure(o); err != nil {
		t.Fatal(err)
	}
	if failed := r.await(s, Failed); failed.FailedStep != 3 || space.CodeOf(failed.Err) != space.CodeNotFound {
		t.Errorf("step %d failed: %v", failed.FailedStep, failed.Err)
	}
}

// TestLostLoginIsSaid has a template of a private image built once more, when nobody has its login any more.
func TestLostLoginIsSaid(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(private.Close)
	r := newRig(t)
	host := strings.TrimPrefix(private.URL, "http://")
	r.insecure = []string{host}
	s := r.open(rootfs.Self())
	o := Order{Template: space.NewID(space.PrefixTemplate), Image: host + "/private/image:1", HadLogin: true}
	if err := s.Ensure(o); err != nil {
		t.Fatal(err)
	}
	var e *space.Error
	if got := r.await(s, Failed).Err; !errors.As(got, &e) || e.Field != "registry_auth" || !strings.Contains(e.Message, "with a login") {
		t.Errorf("it failed with %v", got)
	}
	o.Login = &image.Login{Username: "robot", Password: "wrong"}
	if err := s.Ensure(o); err != nil {
		t.Fatal(err)
	}
	if got := r.await(s, Failed).Err; !errors.As(got, &e) || e.Field != "image" {
		t.Errorf("with a login it failed with %v", got)
	}
}
