package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// fullVolume is a small file system that others have filled. What is spare of it is enough for a session and some output.
type fullVolume struct {
	t    *testing.T
	dir  string
	lent atomic.Int32 // how often it was
	out  atomic.Int32 // how often it wasn't given back
}

func newFullVolume(t *testing.T) *fullVolume {
	t.Helper()
	v := &fullVolume{t: t, dir: t.TempDir()}
	if err := unix.Mount("tmpfs", v.dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(v.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return v
}

// fill takes all room but what is kept as spare.
func (v *fullVolume) fill() {
	v.t.Helper()
	v.write("spare", 64<<10)
	if err := v.write("others", 1<<20); !errors.Is(err, unix.ENOSPC) {
		v.t.Fatalf("the volume isn't full: %v", err)
	}
}

func (v *fullVolume) write(name string, n int) error {
	return os.WriteFile(filepath.Join(v.dir, name), make([]byte, n), 0o600)
}

func (v *fullVolume) Spare() (done func()) {
	v.lent.Add(1)
	v.out.Add(1)
	os.Remove(filepath.Join(v.dir, "spare"))
	return func() { v.out.Add(-1) }
}

// TestASessionBeginsOnAFullVolume, and says what it has to, in what is kept for that; without it it's refused.
func TestASessionBeginsOnAFullVolume(t *testing.T) {
	v, g := newFullVolume(t), newFakeGuest(t)
	set := openSet(t, filepath.Join(v.dir, "with"), Limits{Spare: v.Spare})
	without := openSet(t, filepath.Join(v.dir, "without"), Limits{})
	v.fill()
	set.Use(g.connect())
	without.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	if err := without.Start(space.NewID(space.PrefixSession), &sessionv1.Spec{Argv: []string{"true"}}); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("without any room a session began: %v", err)
	}
	p := g.proc(id)
	p.print([]byte("hello"))
	p.end(0)
	w := attach(t, set, id, 0, false)
	if w.last(t).GetExit() == nil || string(w.data) != "hello" {
		t.Errorf("it said %q, then %v", w.data, w.events[len(w.events)-1])
	}
	if v.lent.Load() == 0 || v.out.Load() != 0 {
		t.Errorf("lent %d times, and %d not given back", v.lent.Load(), v.out.Load())
	}
}

// TestASessionIsLentRoomOnce: one that began in time is told to its end on a volume that is full since then, and one that says more waits for room and loses
// nothing.
func TestASessionIsLentRoomOnce(t *testing.T) {
	v, g := newFullVolume(t), newFakeGuest(t)
	set := openSet(t, filepath.Join(v.dir, "with"), Limits{Spare: v.Spare})
	set.Use(g.connect())
	id := space.NewID(space.PrefixSession)
	p, whole := g.proc(id), text(150_000)
	w := attach(t, set, id, 0, false)
	p.await(t, "it's opened", func() bool { return p.starts > 0 })
	v.fill()
	p.print(whole[:30_000])
	w.awaitData(t, 30_000)
	p.print(whole[30_000:])
	p.end(0)
	w.awaitData(t, 50_000)
	os.Remove(filepath.Join(v.dir, "others"))
	if w.last(t).GetExit() == nil || !bytes.Equal(w.data, whole) {
		t.Errorf("it said %d bytes of %d", len(w.data), len(whole))
	}
	set.Close()
	if v.lent.Load() != 1 || v.out.Load() != 0 {
		t.Errorf("lent %d times, and %d not given back", v.lent.Load(), v.out.Load())
	}
}
