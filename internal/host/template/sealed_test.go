package template

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
)

// TestAMemoryIsSharedWhenThereIsRoom: what couldn't be shared, since its room was promised to others, is when a machine is loaded later, and gives the room back with its template.
func TestAMemoryIsSharedWhenThereIsRoom(t *testing.T) {
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	r.seals = true
	r.put(mini(id), func(*manifest) {})
	memories, err := filepath.Glob(filepath.Join(r.dir, "templates", "*", memoryName))
	if err != nil || len(memories) != 1 {
		t.Fatal(memories, err)
	}
	memory, err := os.Stat(memories[0])
	if err != nil {
		t.Fatal(err)
	}
	r.promises = promise.New(memory.Size())
	takeBack, err := r.promises.Promise(1)
	if err != nil {
		t.Fatal(err)
	}
	s := r.open(rootfs.Self())
	shared := func() bool {
		got, give, err := s.SnapshotFor(id, rootfs.Size{})
		if err != nil {
			t.Fatal(err)
		}
		give()
		return got.Sealed != nil
	}
	if shared() {
		t.Fatal("it's shared in memory that was promised to another")
	}
	takeBack()
	if shared() || r.promises.Left() != memory.Size() {
		t.Error("it's tried again at once")
	}
	s.mu.Lock()
	s.templates[id].base.tried = time.Now().Add(-shareAgain)
	s.mu.Unlock()
	shared() // which begins it
	for deadline := time.Now().Add(20 * time.Second); !shared(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it isn't shared though there's room")
		}
	}
	if r.promises.Left() != 0 {
		t.Errorf("%d bytes are left beside it", r.promises.Left())
	}
	if err := s.Remove(id); err != nil {
		t.Fatal(err)
	}
	r.checkNothingLeft(s)
}
