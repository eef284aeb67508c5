package nodesync_test

import (
	"strings"
	"testing"
	"time"

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
		"another manifest":          {want: record.SnapshotHeld, recorded: status(record.SnapshotReady, "sha256:x"), reported: new(status(record.SnapshotReady, "sha256:y")), orders: []nodesync.OrderKind{nodesync.EnsureExecution}, seen: record.SnapshotReady},
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

// TestADamagedSnapshotIsShown has a node find damage, another manifest, and that all is well again: what is recorded of the snapshot stays otherwise, and it's told once.
func TestADamagedSnapshotIsShown(t *testing.T) {
	id := space.NewID(space.PrefixSnapshot)
	damage := space.Errorf(space.CodeSnapshotUnusable, "its memory is damaged")
	recorded := func(err *space.Error) record.SnapshotStatus {
		return record.SnapshotStatus{State: record.SnapshotReady, Digest: "sha256:x", At: now, Bytes: 5, Pause: time.Second, Error: err}
	}
	reported := func(digest string, err *space.Error) record.SnapshotStatus {
		return record.SnapshotStatus{State: record.SnapshotReady, Digest: digest, At: now, Bytes: 5, Error: err}
	}
	decide := func(was, is record.SnapshotStatus) []record.SnapshotSeen {
		wanted := record.Wanted{Snapshots: []record.WantedSnapshot{{ID: id, Route: newRoute(), Kind: record.SnapshotFull, Want: record.SnapshotTaken, Recorded: was}}}
		return nodesync.Decide(wanted, nodesync.Report{Complete: true, Snapshots: []record.SnapshotSeen{{ID: id, Status: is}}}, nil, now).Snapshots
	}
	for name, x := range map[string]struct {
		was, is record.SnapshotStatus
		want    *space.Error
		news    bool
	}{
		"damage":         {was: recorded(nil), is: reported("sha256:x", damage), want: damage, news: true},
		"the same again": {was: recorded(damage), is: reported("sha256:x", space.Errorf(damage.Code, "%s", damage.Message))},
		"it's well":      {was: recorded(damage), is: reported("sha256:x", nil), news: true},
		"all is well":    {was: recorded(nil), is: reported("sha256:x", nil)},
	} {
		got := decide(x.was, x.is)
		if !x.news && len(got) > 0 || x.news && (len(got) != 1 || got[0].Status != recorded(x.want)) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	another := decide(recorded(nil), reported("sha256:y", nil))
	if len(another) != 1 || another[0].Status.Digest != "sha256:x" || space.CodeOf(another[0].Status.Error) != space.CodeSnapshotUnusable {
		t.Fatalf("another manifest: %+v", another)
	}
	if again := decide(another[0].Status, reported("sha256:y", nil)); len(again) > 0 {
		t.Errorf("another manifest, again: %+v", again)
	}
}

// TestALostSandboxSaysWhatBecameOfItsSnapshot: a snapshot that is damaged isn't gone.
func TestALostSandboxSaysWhatBecameOfItsSnapshot(t *testing.T) {
	id, box := space.NewID(space.PrefixSnapshot), newRoute()
	wanted := record.Wanted{
		Snapshots:  []record.WantedSnapshot{{ID: id, Route: box, Kind: record.SnapshotFull, Want: record.SnapshotHeld, Execution: space.ExecutionSuspended, Recorded: record.SnapshotStatus{State: record.SnapshotReady, Digest: "sha256:x"}}},
		Executions: []record.WantedExecution{{Route: box, Want: record.WantSuspended, Recorded: space.ExecutionSuspended, HeldBy: id}},
	}
	for says, report := range map[string]nodesync.Report{
		"no longer has the snapshot": {Complete: true},
		"can't be used any more: its manifest can't be read": {Complete: true, Snapshots: []record.SnapshotSeen{{ID: id, Status: record.SnapshotStatus{
			State: record.SnapshotFailed, Error: space.Errorf(space.CodeSnapshotUnusable, "its manifest can't be read"),
		}}}},
	} {
		p := nodesync.Decide(wanted, report, map[string]bool{id: true, box.Execution: true}, now)
		if len(p.Executions) != 1 || p.Executions[0].State != space.ExecutionLost || space.CodeOf(p.Executions[0].Error) != space.CodeExecutionLost || !strings.Contains(p.Executions[0].Error.Message, says) {
			t.Errorf("%s: %+v", says, p.Executions)
		}
	}
}
