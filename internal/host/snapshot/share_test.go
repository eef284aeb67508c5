package snapshot

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/promise"
)

// TestTheMemoryIsSharedFromTheSecondLoadOn and only while it's loaded now and then.
func TestTheMemoryIsSharedFromTheSecondLoadOn(t *testing.T) {
	promises := promise.New(64 * block)
	s := openWith(t, Config{Dir: t.TempDir(), Volume: directories{}, Seal: true, MemoryBytes: sharedPart * 4 * block, Promises: promises})
	r, other := take(t, s), take(t, s)
	load := func(r Report) *os.File {
		t.Helper()
		got, give, err := s.Borrow(r.Snapshot, r.Digest, false)
		if err != nil {
			t.Fatal(err)
		}
		give()
		return got.Sealed
	}
	if f := load(r); f != nil {
		t.Error("it's shared for one machine")
	}
	takeBack, err := promises.Promise(promises.Most())
	if err != nil {
		t.Fatal(err)
	}
	if load(r) != nil {
		t.Error("it's shared in memory that was promised to others")
	}
	takeBack()
	f := load(r)
	if f == nil || load(r) != f {
		t.Fatal("it isn't shared")
	}
	if b, err := io.ReadAll(io.NewSectionReader(f, 0, 5*block)); err != nil || len(b) != 4*block || b[0] != 'm' {
		t.Errorf("it has %d bytes, %v", len(b), err)
	}
	load(other)
	if load(other) != nil {
		t.Error("more is shared than there's room for")
	}
	s.letGo(time.Now().Add(sharedIdle))
	if load(other) == nil {
		t.Error("it isn't shared though there is room now")
	}
	if load(r) != nil {
		t.Error("it's shared at its first load after that")
	}
	if err := s.Remove(other.Snapshot); err != nil || s.sharedBytes != 0 {
		t.Errorf("%v, and %d bytes are still shared", err, s.sharedBytes)
	}
	if err := s.Remove(r.Snapshot); err != nil || promises.Left() != 64*block {
		t.Errorf("%v, and of %d bytes %d are left", err, 64*block, promises.Left())
	}
}
