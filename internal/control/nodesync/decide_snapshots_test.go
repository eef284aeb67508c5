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
