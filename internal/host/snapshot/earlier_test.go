package snapshot

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// TestUnionIsWhatLiesInEither compares it with what is so of each block.
func TestUnionIsWhatLiesInEither(t *testing.T) {
	of := func(t *rapid.T, name string) (in []bool, parts []seal.Part) {
		in = rapid.SliceOfN(rapid.Bool(), 30, 30).Draw(t, name)
		for i, is := range in {
			if is {
				parts = appendPart(parts, int64(i)*block, int64(i+1)*block)
			}
		}
		return in, parts
	}
	rapid.Check(t, func(t *rapid.T) {
		a, as := of(t, "a")
		b, bs := of(t, "b")
		var want []seal.Part
		for i := range a {
			if a[i] || b[i] {
				want = appendPart(want, int64(i)*block, int64(i+1)*block)
			}
		}
		if got := union(as, bs); !covered(got, want) || !covered(want, got) || len(got) != len(want) {
			t.Fatalf("%v and %v are %v, want %v", as, bs, got, want)
		}
	})
}

// rolled is a machine of which snapshots are taken while it runs: its memory is a template's, with what it has written.
type rolled struct {
	t       *testing.T
	store   *Store
	order   Order
	machine Machine
	live    string // what it was loaded from
	memory  map[int64][]byte
}

// touch has it write a block.
func (r *rolled) touch(at int64, text string) {
	r.memory[at] = append([]byte(text), make([]byte, block-len(text))...)
}

// take saves it as a driver does; one that knows tells which parts it has touched.
func (r *rolled) take(knows bool) (_ Report, earlier bool) {
	r.t.Helper()
	o := r.order
	o.Snapshot = space.NewID(space.PrefixSnapshot)
	b, err := r.store.Begin(o)
	if err = errors.Join(err, b.Make()); err != nil {
		r.t.Fatal(err)
	}
	_, from, give := b.Earlier(r.t.Context(), false)
	if give == nil {
		from = r.live
	}
	if err := errors.Join(disk.Clone(r.live, b.File(DiskName), 0), disk.Clone(from, b.File(MemoryName), 0), os.WriteFile(b.File(StateName), []byte("state"), 0o600)); err != nil {
		r.t.Fatal(err)
	}
	if give != nil {
		give()
	}
	f, err := os.OpenFile(b.File(MemoryName), os.O_RDWR, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var touched []seal.Part
	for at, page := range r.memory {
		if _, err := pages.To(f, give != nil).WriteAt(page, at); err != nil {
			r.t.Fatal(err)
		}
		touched = union(touched, []seal.Part{{Offset: at, Bytes: block}})
	}
	if knows {
		b.Written.Parts = touched
	}
	m := r.machine
	m.At = time.Now()
	if err := errors.Join(f.Close(), b.Publish(r.t.Context(), m)); err != nil {
		r.t.Fatal(err)
	}
	made, _ := r.store.Find(o.Snapshot)
	return made, give != nil
}

// check loads a snapshot and compares its memory.
func (r *rolled) check(s Report, want map[int64][]byte) {
	r.t.Helper()
	got, give, err := r.store.Borrow(s.Snapshot, s.Digest, false)
	if err != nil {
		r.t.Fatal(err)
	}
	defer give()
	memory, err := os.ReadFile(r.live)
	if err != nil {
		r.t.Fatal(err)
	}
	for at, page := range want {
		copy(memory[at:], page)
	}
	if b, err := os.ReadFile(got.Memory); err != nil || !bytes.Equal(b, memory) {
		r.t.Errorf("its memory isn't what was saved, %v", err)
	}
}

func newRolled(t *testing.T) (*rolled, func()) {
	t.Helper()
	_, base, reopen := volumeOf(t)
	r := &rolled{t: t, store: reopen(), order: full(), machine: machineOf(), live: base, memory: map[int64][]byte{}}
	r.machine.Sessions, r.machine.TemplateDigest = 0, "sha256:base"
	return r, func() { r.store.Close(); r.store = reopen() }
}

// TestASnapshotTakesWhatDiffersFromTheOneBefore takes snapshots of a machine that has touched much and then touches little, with a driver that tells what was touched,
// with one that doesn't, and when what the machine was loaded from is gone. Each holds all of its moment, also when those before it are gone: then it counts with what it had from them.
func TestASnapshotTakesWhatDiffersFromTheOneBefore(t *testing.T) {
	for name, knows := range map[string]bool{"told": true, "found": false, "found without the origin": false} {
		t.Run(name, func(t *testing.T) {
			r, again := newRolled(t)
			if name == "found without the origin" {
				r.machine.TemplateDigest = "sha256:gone"
			}
			const much = 200
			for i := range int64(much) {
				r.touch(2*i*block, "at first")
			}
			var made []Report
			var want []map[int64][]byte
			for n := range 3 {
				r.touch(int64(2*n)*block, "later") // of what it had touched
				r.touch(int64(2*n+1)*block, "anew")
				s, earlier := r.take(knows)
				if earlier != (n > 0) {
					t.Fatalf("snapshot %d begins as the one before: %v", n, earlier)
				}
				made = append(made, s)
				was := map[int64][]byte{}
				for at, page := range r.memory {
					was[at] = page
				}
				want = append(want, was)
				if m := r.store.manifestOf(s.Snapshot); m.Whole || m.Files[MemoryName].Data != int64(len(r.memory))*block {
					t.Errorf("snapshot %d has a digest of %d bytes of memory, want all %d blocks that were touched", n, m.Files[MemoryName].Data, len(r.memory))
				}
			}
			const small = 8 * block // the state, the manifest
			if n := made[0].Bytes; n < much*block {
				t.Errorf("the first counts %d bytes", n)
			}
			for _, s := range made[1:] {
				if s.Bytes > 2*block+small {
					t.Errorf("one that differs in two blocks counts %d bytes", s.Bytes)
				}
			}
			again()
			for i, s := range made {
				r.check(s, want[i])
			}
			if err := errors.Join(r.store.Remove(made[0].Snapshot), r.store.Remove(made[1].Snapshot), btrfs.Sync(filepath.Dir(r.live))); err != nil {
				t.Fatal(err)
			}
			again()
			r.check(made[2], want[2])
			r.store.measure(t.Context())
			if last, _ := r.store.Find(made[2].Snapshot); last.Bytes < much*block {
				t.Errorf("without those before it it counts %d bytes", last.Bytes)
			}
		})
	}
}

// TestWhatIsDamagedIsNoBeginning has the snapshot before damaged, gone, of another execution, or in too many pieces.
func TestWhatIsDamagedIsNoBeginning(t *testing.T) {
	r, again := newRolled(t)
	r.touch(0, "x")
	first, _ := r.take(true)
	path := filepath.Join(r.store.dirOf(first.Snapshot, ""), MemoryName)
	same := r.order.Route
	r.order.Route.Epoch++
	if s, earlier := r.take(true); earlier {
		t.Error("it begins as another execution's")
	} else if err := r.store.Remove(s.Snapshot); err != nil {
		t.Fatal(err)
	}
	r.order.Route = same
	extents := r.store.cfg.Extents
	pieces := func(n int, err error) {
		r.store.Close() // nothing measures meanwhile
		r.store.closed = false
		r.store.cfg.Extents = func(ctx context.Context, of string, do func(disk.Extent)) error {
			if of != path {
				return extents(ctx, of, do)
			}
			for range n {
				do(disk.Extent{})
			}
			return err
		}
	}
	for _, c := range []struct {
		n   int
		err error
	}{{maxPieces + 1, nil}, {0, disk.ErrFragmented}} {
		again()
		r.check(first, map[int64][]byte{0: r.memory[0]}) // read in this life
		pieces(c.n, c.err)
		if s, earlier := r.take(true); earlier {
			t.Errorf("it begins as one in %d pieces, %v", c.n, c.err)
		} else if err := r.store.Remove(s.Snapshot); err != nil {
			t.Fatal(err)
		}
	}
	if err := btrfs.SetReadOnly(filepath.Dir(path), false); err != nil {
		t.Fatal(err)
	}
	write(t, path, 5*block, "damage")
	if err := errors.Join(disk.Sync(path), disk.SetReadOnly(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	again()
	s, earlier := r.take(true)
	if earlier {
		t.Error("it begins as one that is damaged")
	}
	r.check(s, map[int64][]byte{0: r.memory[0]})
	for _, id := range []string{first.Snapshot, s.Snapshot} {
		if err := r.store.Remove(id); err != nil {
			t.Error(err)
		}
	}
	if _, earlier := r.take(true); earlier {
		t.Error("it begins as one that is gone")
	}
}

// TestOnlyTheMemoryOfTheOneBeforeIsRead has the disk of the snapshot before damaged, in a new life: nobody reads it for another one's memory.
func TestOnlyTheMemoryOfTheOneBeforeIsRead(t *testing.T) {
	r, again := newRolled(t)
	r.touch(0, "x")
	first, _ := r.take(true)
	tamper(t, r.store, first, DiskName, func(path string) { write(t, path, 5*block, "damage") })
	again()
	s, earlier := r.take(true)
	if !earlier {
		t.Error("its memory begins as another one, for the disk's sake")
	}
	r.check(s, map[int64][]byte{0: r.memory[0]})
	if _, _, err := r.store.Borrow(first.Snapshot, first.Digest, true); space.CodeOf(err) != space.CodeSnapshotUnusable {
		t.Errorf("the one before is loaded: %v", err)
	}
}
