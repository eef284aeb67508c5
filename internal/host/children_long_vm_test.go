//go:build vm && long

package host_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/peer"
)

// TestLongChildren makes fifty children of one source.
func TestLongChildren(t *testing.T) { tell(t, story{"fifty children", fiftyChildren}) }

// fiftyChildren makes children that are there at once, and have written into their disks; all but one are paused, since an emulated processor has no rest. None shares
// a block that it has written with another, the snapshot is what it was to its last byte, and all disks are clean.
func fiftyChildren(t *testing.T, r *rig, mini string) {
	const children = 50
	source := r.route()
	r.ensure(mini, source)
	r.run(source, "/bin/sh", "-c", "echo source > $HOME/who; cp $HOME/who /dev/shm/who")
	s := r.take(source)
	r.pause(source)
	before := r.sums(s)
	routes := make([]space.Route, children)
	for i := range routes {
		routes[i] = r.route()
		r.load(s, routes[i])
		const write = "cat $HOME/who /dev/shm/who; echo child %d > $HOME/who; dd if=/dev/urandom of=$HOME/data bs=64k count=16 2>/dev/null; sync"
		if got := r.run(routes[i], "/bin/sh", "-c", fmt.Sprintf(write, i)); got != "source\nsource\n" {
			t.Errorf("child %d has %q", i, got)
		}
		r.pause(routes[i])
	}
	if after := r.sums(s); after != before {
		t.Errorf("the snapshot's files have changed:\n%s\n%s", before, after)
	}
	routes = append(routes, source)
	for _, route := range routes {
		r.halt(route)
		r.checkDisk(route)
	}
	r.checkBlocks(s.GetSnapshot(), routes)
	r.removeSnapshot(s)
	for _, route := range routes {
		r.remove(route)
	}
}

// pause has an execution stand still.
func (r *rig) pause(route space.Route) {
	r.t.Helper()
	order := &controlv1.PauseExecution{Route: peer.RouteMessage(route)}
	if _, err := r.host.PauseExecution(r.t.Context(), connect.NewRequest(&hostv1.PauseExecutionRequest{Order: order})); err != nil {
		r.t.Fatal(err)
	}
}

// checkBlocks checks that whatever of executions' disks isn't a snapshot's is nobody else's.
func (r *rig) checkBlocks(snapshot string, routes []space.Route) {
	r.t.Helper()
	const block = 4096
	owner := map[int64]int{} // by place; -1: the snapshot
	look := func(path string, who int) (own int) {
		r.t.Helper()
		err := disk.Extents(r.t.Context(), path, func(e disk.Extent) {
			for at := int64(0); e.Place >= 0 && at < e.Bytes; at += block {
				other, known := owner[e.Place+at]
				switch {
				case known && other == -1:
				case known && other != who:
					r.t.Fatalf("machines %d and %d share the block at %d", other, who, e.Place+at)
				default:
					owner[e.Place+at] = who
					own++
				}
			}
		})
		if err != nil {
			r.t.Fatal(err)
		}
		return own
	}
	if look(filepath.Join(r.volume().Path, "snapshots", space.HostLabel(snapshot), "disk.img"), -1) == 0 {
		r.t.Fatal("the snapshot's disk has no blocks")
	}
	for i, route := range routes {
		found, err := filepath.Glob(filepath.Join(r.volume().Path, "executions", "*"+space.HostLabel(route.Execution)+"*", "disk.img"))
		if err != nil || len(found) != 1 {
			r.t.Fatalf("its disks are %v, %v", found, err)
		}
		if own := look(found[0], i); own*block < 1<<20 && i < len(routes)-1 {
			r.t.Errorf("child %d has written a mebibyte, and has %d KiB of its own", i, own*block>>10)
		}
	}
}
