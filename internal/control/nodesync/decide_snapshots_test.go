package nodesync_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// TestWhatASnapshotCountsIsKept has a node say it anew, and begin anew, when it doesn't know it yet.
func TestWhatASnapshotCountsIsKept(t *testing.T) {
	id := space.NewID(space.PrefixSnapshot)
	ready := func(bytes uint64) record.SnapshotStatus {
		return record.SnapshotStatus{State: record.SnapshotReady, Digest: "sha256:x", At: now, Bytes: bytes}
	}
	for _, x := range []struct {
		name               string
		recorded, reported uint64
		news               bool
	}{
		{name: "the same", recorded: 5, reported: 5},
		{name: "a little more, of one that went", recorded: 5, reported: 6, news: true},
		{name: "less, of another one that is older by its clock", recorded: 5, reported: 4, news: true},
		{name: "a node that has just begun", recorded: 5},
		{name: "the first time", reported: 5, news: true},
	} {
		wanted := record.Wanted{Snapshots: []record.WantedSnapshot{{ID: id, Route: newRoute(), Kind: record.SnapshotDisk, Want: record.SnapshotTaken, Recorded: ready(x.recorded)}}}
		p := nodesync.Decide(wanted, nodesync.Report{Complete: true, Snapshots: []record.SnapshotSeen{{ID: id, Status: ready(x.reported)}}}, nil, now)
		var want []record.SnapshotSeen
		if x.news {
			want = []record.SnapshotSeen{{ID: id, Status: ready(x.reported)}}
		}
		if diff := cmp.Diff(want, p.Snapshots); diff != "" {
			t.Errorf("%s: %s", x.name, diff)
		}
	}
}

// TestAnotherManifestIsNotTheSnapshot has a node report another manifest under a snapshot's name: nothing is lost by that, nothing is removed, and what is ordered from it is
// the one that was recorded. What is lost and still there stays until it's to go.
func TestAnotherManifestIsNotTheSnapshot(t *testing.T) {
	id, box, next := space.NewID(space.PrefixSnapshot), newRoute(), newRoute()
	status := func(s record.SnapshotState, digest string) record.SnapshotStatus {
		return record.SnapshotStatus{State: s, Digest: digest, At: now}
	}
	for name, x := range map[string]struct {
		want     record.SnapshotWant
		recorded record.SnapshotStatus
		reported *record.SnapshotStatus
		believed bool
		orders   []nodesync.OrderKind
		seen     record.SnapshotState
	}{
		"another manifest":          {want: record.SnapshotHeld, recorded: status(record.SnapshotReady, "sha256:x"), reported: new(status(record.SnapshotReady, "sha256:y")), orders: []nodesync.OrderKind{nodesync.EnsureExecution}},
		"another one, to go":        {want: record.SnapshotAway, recorded: status(record.SnapshotReady, "sha256:x"), reported: new(status(record.SnapshotReady, "sha256:y")), orders: []nodesync.OrderKind{nodesync.RemoveSnapshot}},
		"lost, and there":           {want: record.SnapshotHeld, recorded: status(record.SnapshotLost, "sha256:x"), reported: new(status(record.SnapshotFailed, "")), believed: true},
		"lost, and there, to go":    {want: record.SnapshotAway, recorded: status(record.SnapshotLost, "sha256:x"), reported: new(status(record.SnapshotFailed, "")), orders: []nodesync.OrderKind{nodesync.RemoveSnapshot}},
		"lost, and gone, perhaps":   {want: record.SnapshotHeld, recorded: status(record.SnapshotLost, "sha256:x")},
		"lost, and gone, certainly": {want: record.SnapshotHeld, recorded: status(record.SnapshotLost, "sha256:x"), believed: true, seen: record.SnapshotGone},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := record.Wanted{Snapshots: []record.WantedSnapshot{{ID: id, Route: box, Kind: record.SnapshotFull, Want: x.want, Execution: space.ExecutionSuspended, Recorded: x.recorded}}}
			if x.recorded.State == record.SnapshotReady && x.want != record.SnapshotAway {
				wanted.Executions = []record.WantedExecution{
					{Route: box, Want: record.WantKept, Recorded: space.ExecutionSuspended, HeldBy: id},
					{Route: next, Want: record.WantRunning, Recorded: space.ExecutionPending, From: record.Loading{Snapshot: id, State: record.SnapshotReady, Digest: "sha256:x"}},
				}
			}
			report := nodesync.Report{Complete: true}
			if x.reported != nil {
				report.Snapshots = []record.SnapshotSeen{{ID: id, Status: *x.reported}}
			}
			p := nodesync.Decide(wanted, report, map[string]bool{id: x.believed}, now)
			var orders []nodesync.OrderKind
			for _, o := range p.Orders {
				orders = append(orders, o.Kind)
				if o.Kind == nodesync.EnsureExecution && o.Digest != "sha256:x" {
					t.Errorf("ordered from the manifest %s", o.Digest)
				}
			}
			if diff := cmp.Diff(x.orders, orders); diff != "" {
				t.Errorf("orders: %s", diff)
			}
			var seen record.SnapshotState
			for _, s := range p.Snapshots {
				seen = s.Status.State
			}
			if seen != x.seen || len(p.Executions) > 0 {
				t.Errorf("it's seen to be %q, and of executions %+v", seen, p.Executions)
			}
		})
	}
}
