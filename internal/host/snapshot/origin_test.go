package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/host/seal"
)

// blocks is a file, block by block: where each lies; 0: it's a hole.
type blocks []int64

// runs joins neighbours at random, as a file system does.
func (b blocks) runs(t *rapid.T) []run {
	var out []run
	for i, place := range b {
		if place == 0 {
			continue
		}
		r := run{offset: int64(i) * block, place: place * block, bytes: block}
		if place < 0 {
			r.place = -1
		}
		if n := len(out) - 1; n >= 0 && r.place >= 0 && out[n].offset+out[n].bytes == r.offset && out[n].place+out[n].bytes == r.place && rapid.Bool().Draw(t, "joined") {
			out[n].bytes += block
			continue
		}
		out = append(out, r)
	}
	return out
}

// TestDifferingIsWhatLiesElsewhere compares the parts with what is so of each block.
func TestDifferingIsWhatLiesElsewhere(t *testing.T) {
	places := rapid.SliceOfN(rapid.Int64Range(-1, 5), 0, 60)
	rapid.Check(t, func(t *rapid.T) {
		own, theirs := blocks(places.Draw(t, "own")), blocks(places.Draw(t, "theirs"))
		exact := without(own.runs(t), theirs.runs(t), run.shares)
		parts, err := named(exact)
		if err != nil {
			t.Fatal(err)
		}
		var differs []seal.Part
		for i, place := range own {
			if place != 0 && (i >= len(theirs) || place < 0 || place != theirs[i]) {
				differs = append(differs, seal.Part{Offset: int64(i) * block, Bytes: block})
			}
		}
		if !covered(differs, parts) {
			t.Fatalf("%v don't cover %v", parts, differs)
		}
		if !covered(differs, exact) || !covered(exact, differs) {
			t.Fatalf("%v aren't %v", exact, differs)
		}
		for i, p := range parts {
			begins, ends := seal.Part{Offset: p.Offset, Bytes: block}, seal.Part{Offset: p.Offset + p.Bytes - block, Bytes: block}
			if !covered([]seal.Part{begins, ends}, differs) {
				t.Fatalf("%v begins or ends with what doesn't differ: %v", p, differs)
			}
			if i > 0 && p.Offset-(parts[i-1].Offset+parts[i-1].Bytes) <= partGap {
				t.Fatalf("%v and %v are two", parts[i-1], p)
			}
			if covered([]seal.Part{p}, append(parts[:i:i], parts[i+1:]...)) {
				t.Fatalf("%v is covered by the others: %v", p, parts)
			}
		}
	})
}

// volumeOf makes a real volume with a file in it, mounted with options, and a store whose template's files that is.
func volumeOf(t *testing.T, options ...string) (v disk.Volume, base string, reopen func() *Store) {
	t.Helper()
	dir := t.TempDir()
	v = disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for _, o := range options {
		if err := unix.Mount("", v.Path, "", unix.MS_REMOUNT, o); err != nil {
			t.Fatal(err)
		}
	}
	base = filepath.Join(v.Path, "base")
	if err := errors.Join(os.WriteFile(base, bytes.Repeat([]byte("base"), 1<<20), 0o600), disk.Sync(base)); err != nil {
		t.Fatal(err)
	}
	return v, base, func() *Store {
		s, err := Open(Config{Dir: filepath.Join(v.Path, "snapshots"), Volume: subvolumes{}, Own: disk.OwnParts, Extents: disk.Extents, Changed: func() {},
			Template: func(_, digest string) (Origin, func()) {
				if digest != "sha256:base" {
					return Origin{}, nil
				}
				return Origin{Disk: base, Memory: base}, func() {}
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
}

// write changes a file at an offset.
func write(t *testing.T, path string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte(text), at)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// punch discards a block of a file.
func punch(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, block), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// takeOf makes a snapshot of a machine whose disk and memory are copies of some files, with a change in each.
func takeOf(t *testing.T, s *Store, o Origin, m Machine, at int64) Report {
	t.Helper()
	order := full()
	b, err := s.Begin(order)
	if err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(b.File(SessionsName), "session")
	if err := errors.Join(b.Make(), disk.Clone(o.Disk, b.File(DiskName), 0), disk.Clone(o.Memory, b.File(MemoryName), 0), os.WriteFile(b.File(StateName), []byte("state"), 0o600),
		os.MkdirAll(session, 0o700), os.WriteFile(filepath.Join(session, "ring"), []byte("output"), 0o600)); err != nil {
		t.Fatal(err)
	}
	write(t, b.File(DiskName), at, "a file")
	write(t, b.File(MemoryName), at, "a page")
	write(t, b.File(MemoryName), at+2*block, "a page near it")
	if err := b.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r, _ := s.Find(order.Snapshot)
	return r
}

// tamper changes a file of a snapshot.
func tamper(t *testing.T, s *Store, r Report, name string, how func(path string)) {
	t.Helper()
	dir := s.dirOf(r.Snapshot, "")
	if err := btrfs.SetReadOnly(dir, false); err != nil {
		t.Fatal(err)
	}
	how(filepath.Join(dir, name))
	if err := errors.Join(disk.Sync(filepath.Join(dir, name)), disk.SetReadOnly(dir)); err != nil {
		t.Fatal(err)
	}
}

// TestADiskIsReadWhereItDiffers makes snapshots of a template's machine and of one that was loaded from the first, on a real volume: each reads what differs
// from its origin, and finds what was written anywhere else since, as long as that's there. A volume that somebody has mounted with compression is no other.
func TestADiskIsReadWhereItDiffers(t *testing.T) {
	for name, options := range map[string][]string{"plain": nil, "compressed": {"compress-force=zstd"}} {
		t.Run(name, func(t *testing.T) { readWhereItDiffers(t, options...) })
	}
}

func readWhereItDiffers(t *testing.T, options ...string) {
	_, base, reopen := volumeOf(t, options...)
	s := reopen()
	m := machineOf()
	m.TemplateDigest = "sha256:base"
	parent := takeOf(t, s, Origin{Disk: base, Memory: base}, m, 1<<20)
	m.Parent, m.ParentDigest = parent.Snapshot, parent.Digest
	child := takeOf(t, s, Origin{Disk: filepath.Join(s.dirOf(parent.Snapshot, ""), DiskName), Memory: filepath.Join(s.dirOf(parent.Snapshot, ""), MemoryName)}, m, 2<<20)
	for at, r := range map[int64]Report{1 << 20: parent, 2 << 20: child} {
		made := s.manifestOf(r.Snapshot)
		want := []seal.Part{{Offset: at, Bytes: block}}
		if made.WholeDisk || len(made.DiskChanged) != 1 || made.DiskChanged[0].Part != want[0] || made.Files[DiskName].Data != block {
			t.Errorf("of the disk it names %v, %+v", made.DiskChanged, made.Files[DiskName])
		}
	}
	check := func(r Report, boot bool, want space.Code) {
		t.Helper()
		_, give, err := s.Borrow(r.Snapshot, r.Digest, boot)
		if space.CodeOf(err) != want {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			give()
		}
	}
	again := func() { s.Close(); s = reopen() }
	again()
	check(parent, false, "")
	check(child, false, "")
	// What is its origin's, and what is its own.
	overwrite := func(at int64) func(string) { return func(path string) { write(t, path, at, "tampered") } }
	tamper(t, s, child, MemoryName, overwrite(3<<20))
	again()
	check(child, false, space.CodeSnapshotUnusable)
	check(child, true, "")
	tamper(t, s, parent, MemoryName, func(path string) { punch(t, path, 3<<20) })
	again()
	check(parent, false, space.CodeSnapshotUnusable)
	check(parent, true, "")
	tamper(t, s, child, DiskName, func(path string) { punch(t, path, 3<<20) })
	again()
	check(child, true, space.CodeSnapshotUnusable)
	tamper(t, s, parent, DiskName, overwrite(3<<20))
	again()
	check(parent, true, space.CodeSnapshotUnusable)
	third := takeOf(t, s, Origin{Disk: base, Memory: base}, Machine{TemplateDigest: "sha256:base", Kernel: "k", At: time.Now(), VMM: m.VMM, Sessions: 1}, 1<<20)
	tamper(t, s, third, DiskName, overwrite(1<<20))
	again()
	check(third, true, space.CodeSnapshotUnusable)
}

// TestADigestIsTakenOverWhereNothingWasWritten takes two snapshots of one execution: what was written, or discarded, between them is read for the second, and nothing else.
func TestADigestIsTakenOverWhereNothingWasWritten(t *testing.T) {
	v, base, reopen := volumeOf(t)
	s := reopen()
	live := filepath.Join(v.Path, "live")
	if err := disk.Clone(base, live, 0); err != nil {
		t.Fatal(err)
	}
	const same, written, discarded, filled, fresh = 1 << 20, 2 << 20, 3 << 20, 7 << 19, 1 << 19
	for _, at := range []int64{same, written, written + 2*block, discarded, discarded + 2*block, filled, filled + 2*block} {
		write(t, live, at, "first")
	}
	punch(t, live, filled+block)
	route := full().Route
	take := func() (Report, manifest) {
		t.Helper()
		if err := disk.Sync(live); err != nil {
			t.Fatal(err)
		}
		o := full()
		o.Route, o.Kind = route, Disk
		b, err := s.Begin(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Make(), disk.Clone(live, b.File(DiskName), 0)); err != nil {
			t.Fatal(err)
		}
		if err := b.Publish(t.Context(), Machine{TemplateDigest: "sha256:base", At: time.Now()}); err != nil {
			t.Fatal(err)
		}
		r, _ := s.Find(o.Snapshot)
		return r, s.manifestOf(o.Snapshot)
	}
	first, m := take()
	if n := len(m.DiskChanged); n != 4 {
		t.Fatalf("it names %v", m.DiskChanged)
	}
	for i := range m.DiskChanged { // which nobody would come to by reading
		s.entries[first.Snapshot].manifest.DiskChanged[i].SHA256 = "known"
	}
	write(t, live, written+block, "second")
	write(t, live, fresh, "second")
	write(t, live, filled+block, "second")
	punch(t, live, discarded+block)
	second, m := take()
	got := map[int64]string{}
	for _, p := range m.DiskChanged {
		info, err := seal.Parts(t.Context(), filepath.Join(s.dirOf(second.Snapshot, ""), DiskName), []seal.Part{p.Part})
		if err != nil {
			t.Fatal(err)
		}
		got[p.Offset] = map[string]string{info.SHA256: "read", "known": "taken over"}[p.SHA256]
	}
	if diff := cmp.Diff(map[int64]string{fresh: "read", same: "taken over", written: "read", discarded: "read", filled: "read"}, got); diff != "" {
		t.Error(diff)
	}
	if n := s.entries[first.Snapshot].loads; n != 0 {
		t.Errorf("the first is held %d times", n)
	}
}

// TestADiskWhoseParentIsGoneIsComparedWithTheTemplates removes what a machine was loaded from, as collection does soon: the next snapshot of it reads what differs from
// the template's disk, and no more, and is compared with that even though it has a parent. One that was made while the parent was there isn't.
func TestADiskWhoseParentIsGoneIsComparedWithTheTemplates(t *testing.T) {
	v, base, reopen := volumeOf(t)
	s := reopen()
	m := machineOf()
	m.TemplateDigest = "sha256:base"
	parent := takeOf(t, s, Origin{Disk: base, Memory: base}, m, 1<<20)
	live := filepath.Join(v.Path, "live")
	if err := errors.Join(disk.Clone(filepath.Join(s.dirOf(parent.Snapshot, ""), DiskName), live, 0), disk.Clone(filepath.Join(s.dirOf(parent.Snapshot, ""), MemoryName), live+".mem", 0)); err != nil {
		t.Fatal(err)
	}
	m.Parent, m.ParentDigest = parent.Snapshot, parent.Digest
	early := takeOf(t, s, Origin{Disk: live, Memory: live + ".mem"}, m, 2<<20)
	if err := s.Remove(parent.Snapshot); err != nil {
		t.Fatal(err)
	}
	late := takeOf(t, s, Origin{Disk: live, Memory: live + ".mem"}, m, 3<<20)
	made := s.manifestOf(late.Snapshot)
	if made.WholeDisk || made.Files[DiskName].Data != 2*block {
		t.Errorf("of the disk it reads %+v, want the two blocks that differ from the template's", made.Files[DiskName])
	}
	again := func() { s.Close(); s = reopen() }
	check := func(r Report, want space.Code) {
		t.Helper()
		_, give, err := s.Borrow(r.Snapshot, r.Digest, true)
		if space.CodeOf(err) != want {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			give()
		}
	}
	again()
	check(early, "")
	check(late, "")
	tamper(t, s, late, DiskName, func(path string) { write(t, path, 7<<19, "tampered") })
	again()
	check(late, space.CodeSnapshotUnusable)
}

// TestADiskWithoutItsOriginIsReadWhole has a template that was built anew meanwhile.
func TestADiskWithoutItsOriginIsReadWhole(t *testing.T) {
	_, base, reopen := volumeOf(t)
	s := reopen()
	m := machineOf()
	m.TemplateDigest = "sha256:another"
	r := takeOf(t, s, Origin{Disk: base, Memory: base}, m, 1<<20)
	if made := s.manifestOf(r.Snapshot); !made.WholeDisk || made.Files[DiskName].Data != 4<<20 {
		t.Errorf("of the disk it reads %+v", made.Files[DiskName])
	}
	s.Close()
	s = reopen()
	_, give, err := s.Borrow(r.Snapshot, r.Digest, false)
	if err != nil {
		t.Fatal(err)
	}
	give()
}

// TestMovedBlocksAreNoDamage has the file system keep what is an origin's elsewhere than the origin, as btrfs does while it moves blocks: a snapshot that holds
// the same is the one that was saved, in this life and the next. A hole that isn't there any more is none.
func TestMovedBlocksAreNoDamage(t *testing.T) {
	_, base, reopen := volumeOf(t)
	s := reopen()
	m := machineOf()
	m.TemplateDigest = "sha256:base"
	r := takeOf(t, s, Origin{Disk: base, Memory: base}, m, 1<<20)
	move := func(name string, at int64) {
		tamper(t, s, r, name, func(path string) { write(t, path, at, strings.Repeat("base", 64<<10)) })
	}
	move(DiskName, 3<<20)
	move(MemoryName, 2<<20)
	s.Close()
	s = reopen()
	if err := s.borrowAndGive(r); err != nil {
		t.Error(err)
	}
	tamper(t, s, r, DiskName, func(path string) { write(t, path, 3<<20, "other") })
	s.Close()
	s = reopen()
	if err := s.borrowAndGive(r); space.CodeOf(err) != space.CodeSnapshotUnusable {
		t.Errorf("what was written is borrowed: %v", err)
	}
}

// TestABalanceIsNoDamage takes snapshots while btrfs moves all blocks of the volume, and looks at them meanwhile and afterwards as later lives do.
func TestABalanceIsNoDamage(t *testing.T) {
	v, base, reopen := volumeOf(t)
	s := reopen()
	m := machineOf()
	m.TemplateDigest = "sha256:base"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var balance sync.WaitGroup
	balance.Go(func() {
		out, err := exec.CommandContext(ctx, "btrfs", "balance", "start", "--full-balance", v.Path).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		done <- err
	})
	defer balance.Wait()
	defer cancel()
	var taken []Report
	look := func() {
		s.Close()
		s = reopen()
		for _, r := range taken {
			if err := s.borrowAndGive(r); err != nil {
				t.Fatalf("of %d snapshots: %v", len(taken), err)
			}
		}
	}
	for balancing := true; balancing; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			balancing = false
		default:
		}
		if len(taken) < 50 {
			taken = append(taken, takeOf(t, s, Origin{Disk: base, Memory: base}, m, 1<<20))
		}
		look()
	}
	look()
	t.Logf("%d snapshots were taken", len(taken))
}
