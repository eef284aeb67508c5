package promise_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
)

// TestNeverPromisesMore lets machines, builds and shared memories come and go, and compares the ledger with a list of what is there.
func TestNeverPromisesMore(t *testing.T) {
	type given struct {
		bytes    int64 // of its own
		shared   promise.Shared
		takeBack func()
	}
	rapid.Check(t, func(rt *rapid.T) {
		const most = 1000
		l := promise.New(most)
		var there []given
		sum := func() (own, shared int64) {
			once := map[uint64]int64{}
			for _, g := range there {
				own += g.bytes
				once[g.shared.Inode] = g.shared.Bytes
			}
			for _, n := range once {
				shared += n
			}
			return own, shared
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			own, shared := sum()
			bytes, inode := rapid.Int64Range(1, 300).Draw(rt, "bytes"), rapid.Uint64Range(1, 4).Draw(rt, "inode")
			s := promise.Shared{Inode: inode, Bytes: int64(inode) * 60}
			switch rapid.IntRange(0, 4).Draw(rt, "do") {
			case 0:
				takeBack, err := l.Promise(bytes)
				if fits := own+shared+bytes <= most; fits != (err == nil) || err != nil && space.CodeOf(err) != space.CodeCapacity {
					rt.Fatalf("Promise(%d) with %d taken: %v", bytes, own+shared, err)
				}
				if err == nil {
					there = append(there, given{bytes: bytes, takeBack: takeBack})
				}
			case 1:
				takeBack, err := l.Build(bytes)
				if fits := own+shared+bytes <= most; fits != (err == nil) {
					rt.Fatalf("Build(%d) with %d taken: %v", bytes, own+shared, err)
				}
				if err == nil {
					there = append(there, given{bytes: bytes, takeBack: takeBack})
				}
			case 2:
				held := false
				for _, g := range there {
					held = held || g.shared.Inode == inode
				}
				letGo, ok := l.Share(s)
				if fits := held || own+shared+s.Bytes <= most; fits != ok {
					rt.Fatalf("Share(%+v) with %d taken: %v", s, own+shared, ok)
				}
				if ok {
					there = append(there, given{shared: s, takeBack: letGo})
				}
			case 3:
				if len(there) > 0 {
					i := rapid.IntRange(0, len(there)-1).Draw(rt, "which")
					there[i].takeBack()
					there[i].takeBack() // may be repeated
					there = append(there[:i:i], there[i+1:]...)
				}
			case 4: // what an earlier life has promised counts, whether it fits or not
				there = append(there, given{bytes: bytes, takeBack: l.Keep(bytes)})
			}
			own, shared = sum()
			if got := l.Left(); got != max(most-own-shared, 0) {
				rt.Fatalf("Left is %d with %d and %d taken", got, own, shared)
			}
		}
	})
}

// TestBeside tells what isn't sandboxes' own, and that a memory counts until the last one has let go of it.
func TestBeside(t *testing.T) {
	l := promise.New(1000)
	s := promise.Shared{Inode: 7, Bytes: 100}
	store, ok := l.Share(s)
	machine := l.Hold(s)
	build, err := l.Build(50)
	sandbox, err2 := l.Promise(500)
	if !ok || err != nil || err2 != nil || l.Beside() != 150 {
		t.Fatalf("beside %d: %v %v %v", l.Beside(), ok, err, err2)
	}
	none := l.Hold(promise.Shared{})
	for _, x := range []struct {
		takeBack     func()
		beside, left int64
	}{{store, 150, 350}, {build, 100, 400}, {none, 100, 400}, {machine, 0, 500}, {sandbox, 0, 1000}} {
		x.takeBack()
		if l.Beside() != x.beside || l.Left() != x.left {
			t.Errorf("beside %d and %d left, want %d and %d", l.Beside(), l.Left(), x.beside, x.left)
		}
	}
}

// TestFromManySides has many ask for more than there is at once.
func TestFromManySides(t *testing.T) {
	l := promise.New(64)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 200 {
				if takeBack, err := l.Promise(1 + rand.Int64N(9)); err == nil {
					if l.Left() > 64 {
						t.Error("more is left than there is")
					}
					takeBack()
				}
			}
		})
	}
	all.Wait()
	if l.Left() != 64 {
		t.Errorf("%d are left", l.Left())
	}
}
