package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
)

// directories stand for subvolumes; frozen is called when one is made read-only, unless nil.
type directories struct {
	frozen  func(path string) error
	deleted func(path string) error // called before one is deleted, unless nil
}

func (directories) Make(path string) error { return os.Mkdir(path, 0o700) }
func (d directories) Freeze(path string) error {
	if d.frozen != nil {
		return d.frozen(path)
	}
	return nil
}

func (d directories) Delete(path string) error {
	if d.deleted != nil {
		if err := d.deleted(path); err != nil {
			return err
		}
	}
	return os.RemoveAll(path)
}

// block is what a memory changes in.
const block = 4096

// own says that a memory's second block is its own.
func own(_ context.Context, path string) ([]seal.Part, error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() < 2*block {
		return nil, err
	}
	return []seal.Part{{Offset: block, Bytes: block}}, nil
}

// extents says that a file shares nothing.
func extents(_ context.Context, path string, do func(disk.Extent)) error {
	info, err := os.Stat(path)
	if err == nil {
		do(disk.Extent{Place: -1, Bytes: info.Size()})
	}
	return err
}

func open(t *testing.T, dir string, v directories) *Store {
	t.Helper()
	return openWith(t, Config{Dir: dir, Volume: v})
}

// openWith opens a store whose files share what own and extents say. Its configuration is read all the time: nothing of it can be set afterwards.
func openWith(t *testing.T, cfg Config) *Store {
	t.Helper()
	cfg.Own, cfg.Extents, cfg.Changed = own, extents, func() {}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func full() Order {
	return Order{Snapshot: space.NewID(space.PrefixSnapshot), Kind: Full, Template: space.NewID(space.PrefixTemplate), Size: rootfs.Size{VCPUs: 1, MemoryBytes: 4 * block, DiskBytes: block},
		Route: space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
			Placement: space.Placement{Kind: space.PlacementNode, Node: "node"}}}
}

// fill writes the files of a full snapshot.
func fill(t *testing.T, b *Building) {
	t.Helper()
	if err := b.Make(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		DiskName: []byte("disk"), StateName: []byte("state"), MemoryName: bytes.Repeat([]byte("m"), 4*block),
	} {
		if err := os.WriteFile(b.File(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	session := filepath.Join(b.File(SessionsName), "session")
	if err := errors.Join(os.MkdirAll(session, 0o700), os.WriteFile(filepath.Join(session, "ring"), []byte("output"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func machineOf() Machine {
	return Machine{Kernel: "k", At: time.Now().UTC(), VMM: &vmm.Manifest{Driver: "test"}, Sessions: 1}
}

// take makes a full snapshot.
func take(t *testing.T, s *Store) Report {
	t.Helper()
	o := full()
	b, err := s.Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b)
	if err := b.Publish(t.Context(), machineOf()); err != nil {
		t.Fatal(err)
	}
	r, ok := s.Find(o.Snapshot)
	if !ok || r.State != Ready || !strings.HasPrefix(r.Digest, "sha256:") {
		t.Fatalf("it's %+v", r)
	}
	return r
}

func TestASnapshotIsTheSameInTheNextLife(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{})
	r := take(t, s)
	for range 2 {
		got, give, err := s.Borrow(r.Snapshot, r.Digest, false)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(got.State); err != nil || string(b) != "state" || got.VMM.Driver != "test" || got.Route != r.Route {
			t.Errorf("got %+v, whose state is %q, %v", got, b, err)
		}
		if err := s.Remove(r.Snapshot); space.CodeOf(err) != space.CodeConflict {
			t.Errorf("removed while a machine is loaded from it: %v", err)
		}
		give()
		s.Close()
		s = open(t, dir, directories{})
	}
	if err := s.Remove(r.Snapshot); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || len(s.Reports()) > 0 {
		t.Errorf("left are %v, %v and %v", left, err, s.Reports())
	}
	if err := s.Remove(r.Snapshot); err != nil {
		t.Errorf("removed again: %v", err)
	}
}

// TestAMemoryInTooManyPiecesIsReadWhole makes a snapshot whose memory is in more pieces than are looked at, as after many lives: it can be loaded, counts with all
// that it takes, and is found to be damaged wherever that is.
func TestAMemoryInTooManyPiecesIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	fragmented := func(ctx context.Context, path string) ([]seal.Part, error) {
		if filepath.Base(path) == MemoryName {
			return nil, disk.ErrFragmented
		}
		return own(ctx, path)
	}
	many := func(ctx context.Context, path string, do func(disk.Extent)) error {
		if filepath.Base(path) == MemoryName {
			return disk.ErrFragmented
		}
		return extents(ctx, path, do)
	}
	openIt := func() *Store {
		s, err := Open(Config{Dir: dir, Volume: directories{}, Own: fragmented, Extents: many, Changed: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	r := take(t, openIt())
	if r.Bytes < 4*block {
		t.Errorf("it counts with %d bytes", r.Bytes)
	}
	s := openIt()
	_, give, err := s.Borrow(r.Snapshot, r.Digest, false)
	if err != nil {
		t.Fatal(err)
	}
	give()
	s.Close()
	f, err := os.OpenFile(filepath.Join(s.dirOf(r.Snapshot, ""), MemoryName), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), 3*block)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openIt().Borrow(r.Snapshot, r.Digest, false); space.CodeOf(err) != space.CodeSnapshotUnusable {
		t.Errorf("damaged, it's loaded: %v", err)
	}
}

// TestOneThatFailsWhenItHasItsNameIsRemoved damages a snapshot while it gets its name: nobody finds it by that.
func TestOneThatFailsWhenItHasItsNameIsRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{frozen: func(path string) error {
		return os.WriteFile(filepath.Join(path, manifestName), []byte("?"), 0o600)
	}})
	o := full()
	b, err := s.Begin(o)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b)
	if err = b.Publish(t.Context(), machineOf()); err == nil {
		t.Fatal("it's ready")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 { // before its maker does anything else
		t.Errorf("%v is there, %v", left, err)
	}
	b.Fail(err)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := s.Remove(o.Snapshot); err != nil {
		t.Error(err)
	}
}

func TestOneThatIsThereIsntMadeAgain(t *testing.T) {
	s := open(t, t.TempDir(), directories{})
	r := take(t, s)
	if b, err := s.Begin(r.Order); b != nil || err != nil {
		t.Errorf("made again: %v, %v", b, err)
	}
	other := r.Order
	other.Route.Epoch++
	if _, err := s.Begin(other); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("of another execution: %v", err)
	}
}

// TestWhatIsntWholeIsRemoved has the daemon die at each point of a making.
func TestWhatIsntWholeIsRemoved(t *testing.T) {
	died := errors.New("the daemon died")
	for name, at := range map[string]func(*testing.T, *Building) error{
		"empty": func(t *testing.T, b *Building) error { return b.Make() },
		"files": func(t *testing.T, b *Building) error { fill(t, b); return nil },
		"manifest": func(t *testing.T, b *Building) error {
			fill(t, b)
			if err := b.Publish(t.Context(), machineOf()); !errors.Is(err, died) {
				return errors.Join(errors.New("it didn't die"), err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, directories{frozen: func(string) error { return died }})
			b, err := s.Begin(full())
			if err != nil {
				t.Fatal(err)
			}
			if err := at(t, b); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, directories{})
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || len(s.Reports()) > 0 {
				t.Errorf("left are %v, %v and %v", left, err, s.Reports())
			}
		})
	}
}

func TestAFailedOneSaysWhyUntilItsRemoved(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{})
	b, err := s.Begin(full())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b)
	b.Fail(space.Errorf(space.CodeCapacity, "no room"))
	if r, _ := s.Find(b.Snapshot()); r.State != Failed || space.CodeOf(r.Err) != space.CodeCapacity {
		t.Errorf("it's %+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := s.Remove(b.Snapshot()); err != nil || len(s.Reports()) > 0 {
		t.Errorf("%v, left are %v", err, s.Reports())
	}
}

// TestNothingElseIsLoaded changes, exchanges and mixes what is on file, in this life of the daemon and before the next one.
// TestWhatWasWrittenIsOnlyAHint: what a snapshot's memory has of its own is what the file system says, whatever the driver believes.
func TestWhatWasWrittenIsOnlyAHint(t *testing.T) {
	for name, hint := range map[string][]seal.Part{
		"none": nil, "right": {{Offset: block, Bytes: block}}, "another": {{Offset: 2 * block, Bytes: block}}, "nothing": {},
		"right, with its digest": {{Offset: block, Bytes: block}}, "another, with its digest": {{Offset: 2 * block, Bytes: block}},
		"more than a manifest names": append([]seal.Part{{Offset: block, Bytes: block}}, make([]seal.Part, maxChanged)...),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, directories{})
			o := full()
			b, err := s.Begin(o)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, b)
			b.Written.Parts = hint
			if name == "right, with its digest" || name == "another, with its digest" {
				if b.Written.Info, err = seal.Parts(t.Context(), b.File(MemoryName), hint); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Publish(t.Context(), machineOf()); err != nil {
				t.Fatal(err)
			}
			want := []seal.Part{{Offset: block, Bytes: block}}
			if got := s.manifestOf(o.Snapshot).Changed; !slices.Equal(got, want) {
				t.Errorf("it has %v of its own, want %v", got, want)
			}
			r, _ := s.Find(o.Snapshot)
			s.Close()
			_, give, err := open(t, dir, directories{}).Borrow(r.Snapshot, r.Digest, false) // which reads it
			if err != nil {
				t.Fatal(err)
			}
			give()
		})
	}
}

func TestNothingElseIsLoaded(t *testing.T) {
	rewrite := func(name, content string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			copy(b[len(b)/4:], content) // for a memory, in the second block
			if err := errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		boots  bool // its disk can still be booted
	}{
		"state":      {change: rewrite(StateName, "X"), boots: true},
		"memory":     {change: rewrite(MemoryName, "X"), boots: true},
		"manifest":   {change: rewrite(manifestName, " "), boots: true},
		"disk":       {change: rewrite(DiskName, "X")},
		"a session":  {change: rewrite(SessionsName+"/session/ring", "X"), boots: true},
		"no session": {change: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, SessionsName, "session", "ring")) }, boots: true},
		"a session more": {change: func(t *testing.T, dir string) {
			os.WriteFile(filepath.Join(dir, SessionsName, "session", "spec"), nil, 0o600)
		}, boots: true},
		"cut disk": {change: func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, DiskName), 1) }},
		"no state": {change: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, StateName)) }, boots: true},
	} {
		for life, again := range map[string]bool{"same life": false, "next life": true} {
			t.Run(name+", "+life, func(t *testing.T) {
				dir := t.TempDir()
				s := open(t, dir, directories{})
				r := take(t, s)
				c.change(t, s.dirOf(r.Snapshot, ""))
				if again {
					s = open(t, dir, directories{})
				}
				_, _, err := s.Borrow(r.Snapshot, r.Digest, false)
				if space.CodeOf(err) != space.CodeSnapshotUnusable {
					t.Errorf("a load: %v", err)
				}
				_, _, err = s.Borrow(r.Snapshot, r.Digest, true)
				if boots := err == nil; boots != c.boots {
					t.Errorf("a boot: %v", err)
				}
			})
		}
	}
}

func TestOneThatWasSetBackIsntLoaded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, directories{})
	older, newer := take(t, s), take(t, s)
	if _, _, err := s.Borrow(newer.Snapshot, older.Digest, false); space.CodeOf(err) != space.CodeSnapshotUnusable {
		t.Errorf("one with another's digest: %v", err)
	}
	s.Close()
	from, to := s.dirOf(older.Snapshot, ""), s.dirOf(newer.Snapshot, "")
	if err := errors.Join(os.RemoveAll(to), os.Rename(from, to)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, directories{})
	if _, _, err := s.Borrow(newer.Snapshot, newer.Digest, false); space.CodeOf(err) != space.CodeSnapshotUnusable {
		t.Errorf("another's directory: %v", err)
	}
}

// TestOneThatCantBeRemovedIsStillThere fails to remove one: it's reported, so that its removal is ordered again, whoever has forgotten the first order.
func TestOneThatCantBeRemovedIsStillThere(t *testing.T) {
	fails := true
	s := open(t, t.TempDir(), directories{deleted: func(path string) error {
		if fails && !strings.HasSuffix(path, buildSuffix) {
			return errors.New("no room")
		}
		return nil
	}})
	r := take(t, s)
	if err := s.Remove(r.Snapshot); err == nil {
		t.Fatal("it's removed")
	}
	if now, ok := s.Find(r.Snapshot); !ok || now.State != Ready {
		t.Errorf("it's %v, %v, and its files are there", now.State, ok)
	}
	fails = false
	if err := s.Remove(r.Snapshot); err != nil || len(s.Reports()) > 0 {
		t.Errorf("%v is left, %v", s.Reports(), err)
	}
}

// TestWhatCouldntBeReadIsReadAgain has a load come while a file can't be opened: that's no damage that stays.
func TestWhatCouldntBeReadIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	r := take(t, open(t, dir, directories{}))
	s := open(t, dir, directories{})
	e := s.entries[r.Snapshot]
	if err := e.files.verify(0, func(context.Context) error { return e.compare(StateName, seal.Info{}, os.ErrPermission) }); err == nil {
		t.Fatal("it was read")
	}
	_, give, err := s.Borrow(r.Snapshot, r.Digest, false)
	if err != nil {
		t.Fatal(err)
	}
	give()
	if err := e.files.verify(0, func(context.Context) error { return errors.New("what is known stays") }); err != nil {
		t.Error(err)
	}
}

// TestTheLargestManifestCanBeRead writes some of the parts that a manifest may name, far into large files: as many as there may be fit.
func TestTheLargestManifestCanBeRead(t *testing.T) {
	const far, some = 1 << 41, 1000
	bytes := func(memory, disk int64) int {
		m := manifest{Format: format, Order: full(), Machine: machineOf(), Files: map[string]seal.Info{DiskName: {}, MemoryName: {}, StateName: {}}}
		for i := range memory {
			m.Changed = append(m.Changed, seal.Part{Offset: far + i*2*block, Bytes: 100 * block})
		}
		for i := range disk {
			m.DiskChanged = append(m.DiskChanged, sum{seal.Part{Offset: far + i*sumBytes, Bytes: sumBytes}, strings.Repeat("f", 64)})
		}
		dir := t.TempDir()
		if err := durable.WriteJSON(filepath.Join(dir, manifestName), m, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readManifest(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, manifestName))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	none, memory, disk := bytes(0, 0), bytes(some, 0), bytes(0, some)
	if most := none + (memory-none)*(maxChanged/some+1) + (disk-none)*(maxParts/some+1); most > maxManifest {
		t.Errorf("it may have %d bytes, and is read up to %d", most, maxManifest)
	}
}

// FuzzManifest reads anything; what it takes can be written again and is the same.
func FuzzManifest(f *testing.F) {
	b, err := json.Marshal(manifest{Format: format, Order: full(), Machine: machineOf(), Files: map[string]seal.Info{DiskName: {}, MemoryName: {}, StateName: {}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Errorf("%s is taken, and %s isn't: %v", b, again, err)
		}
	})
}

// FuzzBorrow has anything as the manifest of a snapshot whose files are there: it's read, and either refused or what it says is so.
func FuzzBorrow(f *testing.F) {
	dir := f.TempDir()
	for name, content := range map[string][]byte{DiskName: []byte("disk"), StateName: []byte("state"), MemoryName: bytes.Repeat([]byte("m"), 4*block)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			f.Fatal(err)
		}
	}
	sums := map[string]seal.Info{}
	for _, name := range Full.files() {
		info, err := seal.Digest(f.Context(), filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		sums[name] = info
	}
	m := machineOf()
	m.Sessions, m.Whole = 0, true
	for _, x := range []manifest{
		{Format: format, Order: full(), Machine: m, WholeDisk: true, Files: sums},
		{Format: format, Order: full(), Machine: machineOf(), Changed: []seal.Part{{Offset: block, Bytes: block}}, DiskChanged: []sum{{Part: seal.Part{Bytes: 1 << 62}}, {Part: seal.Part{Offset: -1}}}, Files: sums},
	} {
		b, err := json.Marshal(x)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		e := &entry{Order: m.Order, Machine: m.Machine, state: Ready, dir: dir, digest: seal.ManifestDigest(b), manifest: m}
		if err := os.WriteFile(filepath.Join(dir, manifestName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		e.seen, _ = e.look()
		s := &Store{cfg: Config{Extents: extents, Changed: func() {}}, entries: map[string]*entry{m.Snapshot: e}}
		for _, boot := range []bool{true, false} {
			_, give, err := s.Borrow(m.Snapshot, e.digest, boot)
			if code := space.CodeOf(err); err != nil && code != space.CodeSnapshotUnusable {
				t.Fatalf("it's refused with %v", err)
			}
			if err != nil {
				continue
			}
			give()
			for name, info := range m.Files {
				now, err := os.Stat(filepath.Join(dir, filepath.Base(name)))
				if slices.Contains(m.Kind.files(), name) && (!boot || name == DiskName) && (err != nil || now.Size() != info.Bytes) {
					t.Errorf("%s is said to have %d bytes: %v, %v", name, info.Bytes, now, err)
				}
			}
		}
	})
}
