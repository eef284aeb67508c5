//go:build vm

package host_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/peer"
)

// failedDisk has a guest's disk fail, since the volume is full, and gives the room back: commands run meanwhile, the file system has lost what it couldn't write, and the sandbox can
// be suspended all the same. Alone its disk is worth no snapshot.
func failedDisk(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	r.run(route, "/bin/sh", "-c", "echo kept > /dev/shm/kept; (until [ -e /dev/shm/go ]; do usleep 50000; done; dd if=/dev/zero of=$HOME/large bs=1M count=40; sync; touch /dev/shm/gone) >/dev/null 2>&1 &")
	giveBack := r.fill()
	defer giveBack()
	if got := r.run(route, "echo", "still"); got != "still\n" {
		t.Errorf("on a full volume a command says %q", got)
	}
	r.act(route, write("/dev/shm/go"), []byte("x"))
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, _, err := r.call(t.Context(), route, stat("/dev/shm/gone"), nil); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the guest doesn't come to write")
		}
	}
	used := r.used()
	giveBack()
	r.awaitUsed(used/2, 1)
	failed := r.takeFails(route, controlv1.SnapshotKind_SNAPSHOT_KIND_DISK)
	for until := time.Now().Add(time.Minute); failed.GetCode() == string(space.CodeCapacity) && time.Now().Before(until); { // btrfs has room for names a little later
		failed = r.takeFails(route, controlv1.SnapshotKind_SNAPSHOT_KIND_DISK)
	}
	if failed.GetCode() != string(space.CodeGuest) || !strings.Contains(failed.GetMessage(), "Take a full one") {
		t.Errorf("a snapshot of the disk alone says %v", failed)
	}
	s := r.suspend(route)
	next := successor(route)
	r.load(s, next)
	if got := r.run(next, "cat", "/dev/shm/kept"); got != "kept\n" {
		t.Errorf("the memory has %q", got)
	}
	r.remove(route)
	r.remove(next)
	r.removeSnapshot(s)
}

// fill takes all room of the volume, with what was deleted before: btrfs frees that later, at its next commits.
func (r *rig) fill() (giveBack func()) {
	r.t.Helper()
	f, err := os.Create(filepath.Join(r.volume().Path, "filler"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	if out, err := exec.CommandContext(r.t.Context(), "btrfs", "subvolume", "sync", r.volume().Path).CombinedOutput(); err != nil {
		r.t.Fatalf("wait for deleted subvolumes: %v: %s", err, out)
	}
	for at, more := int64(0), true; more; {
		if err := disk.Sync(f.Name()); err != nil {
			r.t.Fatal(err)
		}
		more = false
		for step := int64(1 << 30); step >= 4096; {
			switch err := unix.Fallocate(int(f.Fd()), 0, at, step); {
			case err == nil:
				at, more = at+step, true
			case errors.Is(err, unix.ENOSPC):
				step /= 4
			default:
				r.t.Fatal(err)
			}
		}
	}
	return func() { os.Remove(f.Name()) }
}

// takeFails takes a snapshot that can't be taken, and returns why.
func (r *rig) takeFails(route space.Route, kind controlv1.SnapshotKind) (why *routev1.Error) {
	r.t.Helper()
	order := &controlv1.TakeSnapshot{Route: peer.RouteMessage(route), Snapshot: space.NewID(space.PrefixSnapshot), Kind: kind}
	if _, err := r.host.TakeSnapshot(r.t.Context(), connect.NewRequest(&hostv1.TakeSnapshotRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
	r.await("the snapshot's failure", time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, s := range w.GetSnapshots() {
			if s.GetSnapshot() == order.GetSnapshot() {
				why = s.GetError()
			}
		}
		return why != nil
	})
	r.removeSnapshot(&controlv1.SnapshotReport{Snapshot: order.Snapshot})
	return why
}
