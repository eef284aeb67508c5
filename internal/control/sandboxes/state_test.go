package sandboxes_test

import (
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// TestState is the whole function; nodesync's world walks through it and holds its steps to the vocabulary's transitions.
func TestState(t *testing.T) {
	const none = space.ExecutionState("")
	for _, x := range []struct {
		desired  record.Desired
		disk     space.ExecutionState // of the execution that it boots from; none: from the template; "loaded": from a snapshot
		observed map[space.ExecutionState]space.State
	}{
		{record.DesiredRunning, none, map[space.ExecutionState]space.State{
			"pending": "creating", "running": "running", "failed": "failed", "stopped": "stopped", "lost": "lost", "gone": "lost"}},
		{record.DesiredRunning, "stopped", map[space.ExecutionState]space.State{
			"pending": "starting", "running": "running", "failed": "stopped", "stopped": "stopped", "lost": "lost", "gone": "lost"}},
		{record.DesiredRunning, "lost", map[space.ExecutionState]space.State{
			"pending": "starting", "running": "running", "failed": "lost", "stopped": "stopped", "lost": "lost", "gone": "lost"}},
		{record.DesiredRunning, "gone", map[space.ExecutionState]space.State{"running": "running", "lost": "lost"}},
		{record.DesiredRunning, "loaded", map[space.ExecutionState]space.State{
			"pending": "restoring", "running": "running", "paused": "resuming", "suspended": "suspended", "stopped": "stopped", "lost": "lost", "gone": "lost"}},
		{record.DesiredPaused, none, map[space.ExecutionState]space.State{"running": "pausing", "paused": "paused", "suspended": "suspended", "lost": "lost"}},
		{record.DesiredSuspended, none, map[space.ExecutionState]space.State{
			"running": "suspending", "paused": "suspending", "suspended": "suspended", "lost": "lost"}},
		{record.DesiredStopped, none, map[space.ExecutionState]space.State{
			"running": "stopping", "paused": "stopping", "stopped": "stopped", "lost": "lost", "gone": "lost"}},
		{record.DesiredDeleted, none, map[space.ExecutionState]space.State{
			"pending": "deleting", "running": "deleting", "failed": "deleting", "stopped": "deleting", "lost": "deleting", "gone": "deleting"}},
	} {
		for observed, want := range x.observed {
			box := record.Sandbox{Desired: x.desired, Execution: record.Execution{Observed: observed}}
			switch x.disk {
			case none:
			case "loaded":
				box.Execution.Snapshot, box.Execution.Replaces = "snp_1", "exe_1"
			default:
				box.Execution.DiskOf, box.Execution.Disk = "exe_1", x.disk
			}
			if got := sandboxes.State(box); got != want {
				t.Errorf("desired %s, observed %s, booting from a disk that is %q: %s, want %s", x.desired, observed, x.disk, got, want)
			}
		}
	}
	if got := sandboxes.State(record.Sandbox{Desired: record.DesiredDeleted, Deleted: true, Execution: record.Execution{Observed: space.ExecutionGone}}); got != space.StateDeleted {
		t.Errorf("when all is gone: %s", got)
	}
}
