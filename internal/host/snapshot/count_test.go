package snapshot

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

const mib = 1 << 20

// farm is a store on a real volume, a template's disk, and disks of sandboxes that were cloned of it.
type farm struct {
	t     *testing.T
	store *Store
	dir   string
	of    string    // the template
	at    time.Time // of the next snapshot

	named func() // called when one that was counted is about to get its name, unless nil
}

func newFarm(t *testing.T, options ...string) *farm {
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		if err := unix.Mount("", v.Path, "", unix.MS_REMOUNT, o); err != nil {
			t.Fatal(err)
		}
	}
	f := &farm{t: t, dir: v.Path, of: space.NewID(space.PrefixTemplate), at: time.Now().Add(-time.Hour)}
	var err error
	f.store, err = Open(Config{
		Dir: filepath.Join(f.dir, "snapshots"), Volume: directories{frozen: f.naming}, Own: disk.OwnParts, Extents: disk.Extents, Templates: filepath.Dir(f.template("")), Changed: func() {},
	})
	f.must(err)
	t.Cleanup(f.store.Close)            // before the volume goes
	building := f.template("") + ".new" // a template comes later than the first measurement
	f.must(os.MkdirAll(building, 0o700))
	f.must(os.WriteFile(filepath.Join(building, DiskName), bytes.Repeat([]byte("t"), 8*mib), 0o600))
	f.must(os.Rename(building, f.template("")))
	f.must(btrfs.Sync(f.dir))
	return f
}

func (f *farm) naming(string) error {
	if f.named != nil {
		f.named()
	}
	return nil
}

func (f *farm) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *farm) template(name string) string {
	return filepath.Join(f.dir, "templates", space.HostLabel(f.of)+"-x", name)
}

// sandbox makes a disk of the template's, or of a snapshot's.
func (f *farm) sandbox(of string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, space.NewID(space.PrefixSandbox))
	f.must(disk.Clone(of, path, 0))
	return path
}

// write has a sandbox write over some of its disk.
func (f *farm) write(path string, at, length int) {
	f.t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	f.must(err)
	defer file.Close()
	_, err = file.WriteAt(bytes.Repeat([]byte{byte(at / mib)}, length), int64(at))
	f.must(err)
	f.must(file.Sync())
}

// take makes a snapshot of a disk.
func (f *farm) take(path string) string {
	f.t.Helper()
	o := full()
	o.Kind, o.Template = Disk, f.of
	b, err := f.store.Begin(o)
	f.must(err)
	f.must(b.Make())
	f.must(disk.Clone(path, b.File(DiskName), 0))
	f.must(os.Mkdir(b.File(SessionsName), 0o700))
	f.at = f.at.Add(time.Second)
	f.must(b.Publish(f.t.Context(), Machine{Kernel: "k", At: f.at}))
	return o.Snapshot
}

func (f *farm) remove(id string) {
	f.t.Helper()
	f.must(f.store.Remove(id))
	f.must(btrfs.Sync(f.dir))
	f.store.measure(f.t.Context())
}

// counts fails unless snapshots count so many MiB, beside their small files.
func (f *farm) counts(when string, want map[string]int64) {
	f.t.Helper()
	const small = 16 << 10
	for id, n := range want {
		r, _ := f.store.Find(id)
		if r.Bytes <= n*mib || r.Bytes > n*mib+small {
			f.t.Errorf("%s: one counts %d bytes, want %d MiB and a little", when, r.Bytes, n)
		}
	}
}

// TestEachBlockCountsOnce takes pairs of snapshots, which share everything, chains of them, and some of forks.
func TestEachBlockCountsOnce(t *testing.T) {
	for name, options := range map[string][]string{"plain": nil, "compressed": {"compress-force=zstd"}} {
		t.Run(name, func(t *testing.T) { eachCountsOnce(newFarm(t, options...)) })
	}
}

func eachCountsOnce(f *farm) {
	t := f.t
	box := f.sandbox(f.template(DiskName))
	f.write(box, 0, 3*mib)
	a, b := f.take(box), f.take(box)
	f.counts("a pair", map[string]int64{a: 3, b: 0})
	f.write(box, 1*mib, 2*mib) // a and b hold what was there before
	c := f.take(box)
	f.counts("a chain", map[string]int64{a: 3, b: 0, c: 2})
	child, other := f.sandbox(filepath.Join(f.store.dirOf(c, ""), DiskName)), f.sandbox(filepath.Join(f.store.dirOf(c, ""), DiskName))
	f.write(child, 4*mib, mib)
	d, e := f.take(child), f.take(other)
	f.counts("forks", map[string]int64{a: 3, b: 0, c: 2, d: 1, e: 0})
	f.must(os.Remove(box)) // their sandbox goes
	f.store.measure(t.Context())
	f.counts("without the sandbox", map[string]int64{a: 3, b: 0, c: 2, d: 1, e: 0})
	f.remove(a)
	f.counts("without the oldest", map[string]int64{b: 3, c: 2, d: 1, e: 0})
	f.remove(c)
	f.counts("without the forks' origin", map[string]int64{b: 3, d: 3, e: 0})
	f.must(os.RemoveAll(f.template(DiskName)))
	f.store.measure(t.Context())
	f.counts("without the template", map[string]int64{b: 8, d: 3, e: 0})
	f.remove(b)
	f.counts("the forks alone", map[string]int64{d: 8, e: 1})
}

// TestABlockCountsOnceWhileAllAreMeasured measures all when one has been counted and doesn't have its name yet: what it holds counts with it, and not again with the next.
func TestABlockCountsOnceWhileAllAreMeasured(t *testing.T) {
	f := newFarm(t)
	box := f.sandbox(f.template(DiskName))
	f.write(box, 0, 3*mib)
	f.named = func() { f.store.measure(t.Context()) }
	a, b := f.take(box), f.take(box)
	f.counts("a pair", map[string]int64{a: 3, b: 0})
	f.named = nil
	c := f.take(box)
	f.counts("another", map[string]int64{a: 3, b: 0, c: 0})
	f.store.measure(t.Context())
	f.counts("measured again", map[string]int64{a: 3, b: 0, c: 0})
	if n := len(f.store.younger); n != 0 {
		t.Errorf("%d are waited for, of three that are ready", n)
	}
}

// TestSessionsCount keeps the output of a session in a snapshot.
func TestSessionsCount(t *testing.T) {
	s := open(t, t.TempDir(), directories{})
	b, err := s.Begin(full())
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b)
	if err = os.WriteFile(filepath.Join(b.File(SessionsName), "output"), make([]byte, 2*mib), 0o600); err == nil {
		err = b.Publish(t.Context(), machineOf())
	}
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := s.Find(b.Snapshot()); r.Bytes < 2*mib {
		t.Errorf("it counts %d bytes", r.Bytes)
	}
}

// TestLedger compares it with a set of blocks.
func TestLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, set := newLedger(), map[int64]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "extents") {
			place := rapid.Int64Range(0, 300).Draw(t, "place") + rapid.SampledFrom([]int64{0, pageBlocks - 100, 1 << 40}).Draw(t, "where")
			n := rapid.Int64Range(1, 300).Draw(t, "blocks")
			want := int64(0)
			for b := place; b < place+n; b++ {
				if !set[b] {
					set[b] = true
					want += blockBytes
				}
			}
			if got := l.take(place*blockBytes, n*blockBytes); got != want {
				t.Fatalf("%d blocks at %d: %d bytes are new, want %d", n, place, got, want)
			}
		}
	})
}

// TestGivenBackBlocksCountAgain takes a snapshot in the place of one that was removed: it may count too little at first, and soon counts all that it holds.
func TestGivenBackBlocksCountAgain(t *testing.T) {
	f := newFarm(t)
	box := f.sandbox(f.template(DiskName))
	f.write(box, 0, 3*mib)
	old := f.take(box)
	f.store.counting.Lock()
	for place := int64(0); place < disk.MinBytes; place += mib { // as if whatever comes next had been the removed one's
		f.store.ledger.take(place, mib)
	}
	f.store.counting.Unlock()
	f.write(box, 4*mib, 2*mib)
	young := f.take(box)
	if r, _ := f.store.Find(young); r.Bytes >= mib {
		t.Errorf("it counts %d bytes in the place of another, want less than it holds", r.Bytes)
	}
	f.must(f.store.Remove(old))
	for until := time.Now().Add(measureInterval / 2); ; {
		if r, _ := f.store.Find(young); r.Bytes > 5*mib {
			break
		} else if time.Now().After(until) {
			t.Fatalf("it counts %d bytes long after the removal, want 5 MiB and a little", r.Bytes)
		}
		time.Sleep(10 * time.Millisecond) // a poll under a deadline
	}
}
