package template

import (
	"bytes"
	"os"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
)

// TestWhatCanNotBeMadeAnewStays: the old one goes when there is a new one, and serves until then.
func TestWhatCanNotBeMadeAnewStays(t *testing.T) {
	for name, change := range map[string]func(*manifest){
		"kernel": func(m *manifest) { m.Sources.Kernel = "old" },
		"recipe": func(m *manifest) { m.Sources.Recipe = "old" },
	} {
		t.Run(name, func(t *testing.T) {
			r, id := newRig(t), space.NewID(space.PrefixTemplate)
			r.put(mini(id), change)
			s := r.open(rootfs.Self())
			if got := r.await(s, Ready); got.Digest == "" || got.Err != nil { // nothing boots here
				t.Errorf("got %+v", got)
			}
			if r.boots != 1 {
				t.Errorf("%d machines booted", r.boots)
			}
			_, give, err := s.Borrow(id)
			if err != nil {
				t.Fatal(err)
			}
			give()
			if err := s.Remove(id); err != nil {
				t.Fatal(err)
			}
			r.checkNothingLeft(s)
		})
	}
}

// TestFilesThatChangeUnderTheDaemon: whoever wants a machine learns that the template is being made anew, and it is.
func TestFilesThatChangeUnderTheDaemon(t *testing.T) {
	for name, damage := range map[string]func(b *base) error{
		"no manifest":    func(b *base) error { return os.Remove(b.file(manifestName)) },
		"no memory":      func(b *base) error { return os.Remove(b.file(memoryName)) },
		"a shorter disk": func(b *base) error { return os.Truncate(b.file(diskName), 1) },
		"a longer state": func(b *base) error { return os.Truncate(b.file(stateName), 100) },
		"another state":  func(b *base) error { return exchange(b.file(stateName)) },
		"other memory":   func(b *base) error { return exchange(b.file(memoryName)) },
	} {
		t.Run(name, func(t *testing.T) {
			r, id := newRig(t), space.NewID(space.PrefixTemplate)
			r.put(mini(id), func(*manifest) {})
			other := rootfs.Size{VCPUs: 2, MemoryBytes: 256 * mib, DiskBytes: 128 * mib}
			r.put(mini(id), func(m *manifest) { m.Secondary, m.Size = true, other })
			s := r.open(rootfs.Self())
			if err := damage(s.templates[id].shapes[other].base); err != nil {
				t.Fatal(err)
			}
			own, give, err := s.SnapshotFor(id, other)
			if err != nil || own.Size == other {
				t.Fatalf("got %+v, %v: want the template's own snapshot", own, err)
			}
			give()
			if err := damage(s.templates[id].base); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.SnapshotFor(id, other); space.CodeOf(err) != space.CodeTemplateNotReady {
				t.Fatalf("got %v", err)
			}
			if failed := r.await(s, Failed); failed.Err == nil || r.boots != maxBroken { // nothing boots here
				t.Errorf("got %+v after %d boots", failed, r.boots)
			}
		})
	}
}

// exchange replaces a file by another one of its length.
func exchange(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", bytes.Repeat([]byte{'x'}, int(info.Size())), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// TestFilesThatChangeWithoutTheDaemon: what was exchanged while nobody looked isn't loaded; the template is made anew from its disk.
func TestFilesThatChangeWithoutTheDaemon(t *testing.T) {
	for _, name := range []string{stateName, memoryName} {
		t.Run(name, func(t *testing.T) {
			r, id := newRig(t), space.NewID(space.PrefixTemplate)
			r.put(mini(id), func(*manifest) {})
			s := r.open(rootfs.Self())
			if r.await(s, Ready); r.boots != 0 {
				t.Fatalf("%d machines booted for a snapshot that is whole", r.boots)
			}
			path := s.templates[id].base.file(name)
			s.Close()
			if err := exchange(path); err != nil {
				t.Fatal(err)
			}
			s = r.open(rootfs.Self())
			if failed := r.await(s, Failed); failed.Err == nil || r.boots != maxBroken { // nothing boots here
				t.Errorf("got %+v after %d boots", failed, r.boots)
			}
		})
	}
}

// TestRoomIsWaitedFor: a template that was ready isn't given up while the node is full, and is made anew when there is room.
func TestRoomIsWaitedFor(t *testing.T) {
	r, id := newRig(t), space.NewID(space.PrefixTemplate)
	full, asked := 3*maxBroken, 0
	r.room = func() error {
		if asked++; asked > full {
			return nil
		}
		return space.Errorf(space.CodeCapacity, "the volume is full")
	}
	r.put(mini(id), func(*manifest) {})
	s := r.open(rootfs.Self())
	if err := exchange(s.templates[id].base.file(memoryName)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.SnapshotFor(id, rootfs.Size{}); space.CodeOf(err) != space.CodeTemplateNotReady {
		t.Fatalf("got %v", err)
	}
	if failed := r.await(s, Failed); r.boots != maxBroken { // nothing boots here
		t.Errorf("%d machines booted when there was room, want %d: %+v", r.boots, maxBroken, failed)
	}
}

// TestNoBuildWithoutMemory: what the node has promised to sandboxes isn't a build's. The first build of a template fails with the reason.
func TestNoBuildWithoutMemory(t *testing.T) {
	r := newRig(t)
	r.promises = promise.New(1)
	s := r.open(rootfs.Self())
	if err := s.Ensure(mini(space.NewID(space.PrefixTemplate))); err != nil {
		t.Fatal(err)
	}
	if failed := r.await(s, Failed); space.CodeOf(failed.Err) != space.CodeCapacity || r.boots != 0 {
		t.Errorf("%v after %d boots, want %s", failed.Err, r.boots, space.CodeCapacity)
	}
	if err := s.Remove(s.Reports()[0].Template); err != nil {
		t.Fatal(err)
	}
	r.checkNothingLeft(s)
}

// TestATryAgainEndsWithItsTemplate: one that waits for its next try is removed at once, and the daemon stops at once.
func TestATryAgainEndsWithItsTemplate(t *testing.T) {
	for name, end := range map[string]func(s *Store, id string) error{
		"removed": func(s *Store, id string) error { return s.Remove(id) },
		"stopped": func(s *Store, _ string) error { s.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			r, id := newRig(t), space.NewID(space.PrefixTemplate)
			r.retryPause = time.Hour
			r.room = func() error { return space.Errorf(space.CodeCapacity, "the volume is full") }
			r.put(mini(id), func(*manifest) {})
			s := r.open(rootfs.Self())
			if err := exchange(s.templates[id].base.file(memoryName)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.SnapshotFor(id, rootfs.Size{}); space.CodeOf(err) != space.CodeTemplateNotReady {
				t.Fatalf("got %v", err)
			}
			r.awaitProgress(s, "it could not be made anew, and is tried again in 1h0m0s: the volume is full")
			if err := end(s, id); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTriesComeSlower(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 0, 1: firstRetry, 2: 2 * firstRetry, 3: 4 * firstRetry, 6: maxRetry, 1 << 20: maxRetry} {
		if got := (Config{}).pauseBefore(failures); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
}
