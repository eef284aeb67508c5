package execution

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
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
