package execution

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/snapshot"
)

// fullDisk puts the executions of a rig on a small file system of their own. The function fills it.
func fullDisk(t *testing.T, r *rig) (fill func()) {
	t.Helper()
	dir := filepath.Join(r.dir, "executions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return func() {
		f, err := os.Create(filepath.Join(dir, "filler.unreadable"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(bytes.Repeat([]byte{1}, 4096))
		}
		if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
}

// TestRemovalFromAFullDisk deletes what fills a disk: there is no room to write anything down, and there must not have to be.
func TestRemovalFromAFullDisk(t *testing.T) {
	r := newRig(t)
	fill := fullDisk(t, r)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	fill()
	remove(t, table, o.Route)
	if err := os.Remove(filepath.Join(r.dir, "executions", "filler.unreadable")); err != nil {
		t.Fatal(err)
	}
	r.checkNothingLeft()
}

// TestAMachineWhoseDiskFailsIsKept: what the disk hasn't taken is in the memory, which a snapshot of the disk alone hasn't. Its guest may be older than this host.
func TestAMachineWhoseDiskFailsIsKept(t *testing.T) {
	for name, old := range map[string]bool{"of this version": false, "older": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			table, o := r.open(), order()
			ensure(t, table, o, space.ExecutionRunning)
			r.failed, r.old = &guestv1.Quiesced{Unwritten: uint32(unix.EIO)}, old
			for kind, want := range map[snapshot.Kind]string{snapshot.Full: snapshot.Ready, snapshot.Disk: snapshot.Failed} {
				id := snapshotID()
				if err := table.TakeSnapshot(t.Context(), o.Route, id, kind); err != nil {
					t.Fatal(err)
				}
				s := r.awaitSnapshot(t, id)
				if s.State != want {
					t.Errorf("a %s snapshot is %s: %v", kind, s.State, s.Err)
				}
				if kind == snapshot.Disk && (space.CodeOf(s.Err) != space.CodeGuest || !strings.Contains(s.Err.Error(), "Take a full one")) {
					t.Errorf("it says %v", s.Err)
				}
				if r.running()[0].paused.Load() {
					t.Errorf("it stands still after a %s snapshot", kind)
				}
			}
			s := suspend(t, r, table, o, snapshotID())
			next := from(s)
			ensure(t, table, next, space.ExecutionRunning)
			stop(t, table, next.Route)
			awaitState(t, table, next, space.ExecutionStopped)
		})
	}
}

// TestRoomIsKeptForTheLargestMachineThatMayBeSuspended: from before it's made until it's suspended or stopped, in this life of the daemon and the next.
func TestRoomIsKeptForTheLargestMachineThatMayBeSuspended(t *testing.T) {
	r := newRig(t)
	table := r.open()
	want := func(bytes int64) {
		t.Helper()
		if got := table.Largest(); got != bytes {
			t.Errorf("room is kept for a machine with %d bytes of memory, want %d", got, bytes)
		}
	}
	want(0)
	small, large := order(), order()
	large.Size = rootfs.Size{VCPUs: 1, MemoryBytes: 128 * mib, DiskBytes: 4 * mib}
	ensure(t, table, small, space.ExecutionRunning)
	want(ownSize.MemoryBytes) // it has asked for no size
	making := r.atStep("enclose", func() error { want(128 * mib); return nil })
	ensure(t, table, large, space.ExecutionRunning)
	if !making() {
		t.Error("it was made without an enclosure")
	}
	want(128 * mib)
	if kept := []int64{ownSize.MemoryBytes, 128 * mib}; !slices.Equal(r.kept, kept) {
		t.Errorf("room was asked for machines with %v bytes of memory, want %v", r.kept, kept)
	}
	table.Close()
	table = r.open()
	want(128 * mib)
	suspend(t, r, table, large, snapshotID())
	want(ownSize.MemoryBytes)
	stop(t, table, small.Route)
	want(0)
}

// TestASuspendUsesWhatIsKeptForItWhileItWrites, and no longer, whether it succeeds or not.
func TestASuspendUsesWhatIsKeptForItWhileItWrites(t *testing.T) {
	for _, fails := range []bool{false, true} {
		r := newRig(t)
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		lent := func() []int64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			return slices.Clone(r.lent)
		}
		saved := r.atStep("save", func() error {
			if want := []int64{ownSize.MemoryBytes}; !slices.Equal(lent(), want) {
				t.Errorf("while it writes it uses what is kept for %v bytes of memory, want %v", lent(), want)
			}
			if fails {
				return unix.ENOSPC
			}
			return nil
		})
		id := snapshotID()
		if err := table.Suspend(t.Context(), o.Route, id); err != nil {
			t.Fatal(err)
		}
		if s := r.awaitSnapshot(t, id); (s.State == snapshot.Failed) != fails || !saved() {
			t.Errorf("the snapshot is %+v", s)
		}
		if fails {
			awaitState(t, table, o, space.ExecutionRunning)
		} else {
			awaitState(t, table, o, space.ExecutionSuspended)
		}
		eventually(t, "what is kept is used no more", func() bool { return len(lent()) == 0 })
		remove(t, table, o.Route)
		r.checkNothingLeft()
	}
}
