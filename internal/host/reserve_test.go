package host

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
)

func TestWhatIsKeptForSuspends(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		why                   string
		volume, memory, bytes int64
	}{
		{"nothing runs", 10 * gib, 0, 10 * gib / percent * reservePercent},
		{"nothing runs on a large volume", 1000 * gib, 0, gib},
		{"one runs, whose suspend needs less", 10 * gib, 64 << 20, 10 * gib / percent * reservePercent},
		{"one runs whose suspend needs more", 10 * gib, gib, gib + gib/4 + 64<<20},
		{"one runs that is larger than any that room is kept for", 10 * gib, 8 * gib, 10 * gib / 4},
	} {
		if got := reserveFor(disk.Usage{Bytes: c.volume}, c.memory); got != c.bytes {
			t.Errorf("%s: %d bytes are kept, want %d", c.why, got, c.bytes)
		}
	}
	full, empty := disk.Usage{Bytes: 10 * gib, FreeBytes: gib / 2}, disk.Usage{Bytes: 10 * gib, FreeBytes: 8 * gib}
	if got := reserveNow(empty, 2*gib, 0); got != 2*gib {
		t.Errorf("what was kept for one that is gone is %d bytes while nobody misses them, want %d", got, 2*gib)
	}
	if got := reserveNow(full, 2*gib, gib); got != reserveFor(full, gib) {
		t.Errorf("on a full volume it's %d, want what the one needs that is there: %d", got, reserveFor(full, gib))
	}
}

// TestNothingIsBegunWhoseSuspendHasNoRoom: what is admitted leaves the node able to begin more, with as much kept as its suspend writes or a quarter of the volume.
func TestNothingIsBegunWhoseSuspendHasNoRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := disk.Usage{Bytes: rapid.Int64Range(1<<30, 1<<40).Draw(t, "volume")}
		u.FreeBytes = rapid.Int64Range(0, u.Bytes).Draw(t, "free")
		memory, kept := rapid.Int64Range(96<<20, 1<<36).Draw(t, "memory"), rapid.Int64Range(0, u.Bytes-u.FreeBytes).Draw(t, "kept")
		more := max(reserveFor(u, memory)-kept, 0)
		err := checkReserve(u, kept, memory)
		after := disk.Usage{Bytes: u.Bytes, FreeBytes: u.FreeBytes - more}
		switch {
		case err != nil && space.CodeOf(err) != space.CodeCapacity:
			t.Fatalf("it's refused with %v", err)
		case err != nil && more == 0:
			t.Fatalf("it's refused though nothing more must be kept: %v", err)
		case err != nil && levelOf(after) != pressureRefusing:
			t.Fatalf("it's refused with %d of %d bytes left: %v", after.FreeBytes, u.Bytes, err)
		case err == nil && more > 0 && levelOf(after) == pressureRefusing:
			t.Fatalf("it's begun, and leaves %d of %d bytes", after.FreeBytes, u.Bytes)
		}
		if need := reserveFor(u, memory); need < min(memory*5/4, u.Bytes/4) {
			t.Fatalf("%d bytes are kept for %d of memory on a volume of %d", need, memory, u.Bytes)
		}
	})
}

// TestTheReserveGrowsWithWhatRuns on a real volume, and isn't what a larger sandbox is refused for twice.
func TestTheReserveGrowsWithWhatRuns(t *testing.T) {
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: 1 << 30, Reserve: 1}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := v.Purge(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	p, err := newPressure(v, nil, func() {})
	if err != nil {
		t.Fatal(err)
	}
	largest := int64(0)
	p.largest = func() int64 { return largest }
	keep := func() {
		t.Helper()
		u, err := v.Usage()
		if err == nil {
			err = p.keep(u)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	held := func(want int64) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(v.Path, reserveName), &st); err != nil || st.Size != want {
			t.Errorf("%d bytes are kept, %v, want %d", st.Size, err, want)
		}
	}
	usual := int64(1<<30) / percent * reservePercent
	keep()
	held(usual)
	if err := p.Keep(64 << 20); err != nil {
		t.Fatal(err)
	}
	held(suspendBytes(64 << 20))
	if p, err = newPressure(v, nil, func() {}); err != nil { // another life, in which it's there
		t.Fatal(err)
	}
	largest = 64 << 20
	p.largest = func() int64 { return largest }
	keep()
	held(suspendBytes(64 << 20))
	u, err := v.Usage()
	if err != nil {
		t.Fatal(err)
	}
	filler := disk.Usage{Bytes: u.Bytes, FreeBytes: u.FreeBytes}
	others, err := disk.OpenReserve(filepath.Join(v.Path, "others"), reservePiece)
	if err != nil {
		t.Fatal(err)
	}
	if err := others.Keep(filler.FreeBytes - u.Bytes*8/percent); err != nil { // 8 % are left
		t.Fatal(err)
	}
	for range 2 {
		if err := p.Keep(128 << 20); space.CodeOf(err) != space.CodeCapacity {
			t.Errorf("a larger one, for whose suspend there's no room: %v, want %s", err, space.CodeCapacity)
		}
	}
	held(suspendBytes(64 << 20))
	if err := p.Keep(64 << 20); err != nil {
		t.Errorf("another one that is as large: %v", err)
	}
	before, err := p.usage()
	if err != nil || levelOf(before) == pressureNone {
		t.Fatalf("%+v, %v", before, err)
	}
	done := p.Reserve(64 << 20)
	held(0)
	// What is lent isn't room for anything new.
	if u, err := p.usage(); err != nil || u.FreeBytes > before.FreeBytes+1<<20 || levelOf(u) != levelOf(before) {
		t.Errorf("while a suspend has the reserve %d of %d MiB are free, %v, and %d were", u.FreeBytes>>20, u.Bytes>>20, err, before.FreeBytes>>20)
	}
	done()
	held(suspendBytes(64 << 20))
	largest = 0
	keep() // its room is missed
	held(usual)
}
