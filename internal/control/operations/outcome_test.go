package operations_test

import (
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/record"
)

func TestOutcome(t *testing.T) {
	const on, good, bad = "goes on", "succeeds", "fails"
	for kind, want := range map[record.OperationKind]map[space.ExecutionState]string{
		record.CreateSandbox:   {"pending": on, "running": good, "failed": bad, "lost": bad, "stopped": bad, "gone": bad},
		record.StartSandbox:    {"pending": on, "running": good, "failed": bad, "lost": bad, "stopped": bad, "gone": bad},
		record.StopSandbox:     {"pending": on, "running": on, "failed": bad, "lost": bad, "stopped": good, "gone": bad},
		record.PauseSandbox:    {"running": on, "paused": good, "failed": bad, "lost": bad, "stopped": bad},
		record.ResumeSandbox:   {"paused": on, "running": good, "lost": bad, "suspended": bad},
		record.SuspendSandbox:  {"running": on, "paused": on, "suspended": good, "lost": bad, "stopped": bad},
		record.RestoreSandbox:  {"pending": on, "running": good, "failed": bad, "lost": bad},
		record.RollbackSandbox: {"pending": on, "running": good, "failed": bad, "lost": bad},
		record.SnapshotSandbox: {"running": on, "lost": on},
		record.ForkSandbox:     {"running": on, "lost": on},
		record.DeleteSandbox:   {"pending": on, "running": on, "failed": on, "lost": on, "stopped": on, "gone": on},
		record.BuildTemplate:   {"running": on},
	} {
		for state, want := range want {
			ended, failure := operations.Outcome(kind, record.ExecutionSeen{State: state})
			got := map[bool]string{true: on, false: good}[!ended]
			if failure != nil {
				got = bad
			}
			if got != want || failure != nil && !ended {
				t.Errorf("%s when the machine is %s: %s, want %s", kind, state, got, want)
			}
		}
	}
	died := space.Errorf(space.CodeExecutionLost, "it died")
	if _, failure := operations.Outcome(record.StopSandbox, record.ExecutionSeen{State: space.ExecutionLost, Error: died}); failure != died {
		t.Errorf("the node's reason became %v", failure)
	}
}

func TestARefusalEndsWhatWaited(t *testing.T) {
	refusal := space.Errorf(space.CodeUnavailable, "no")
	seen := record.ExecutionSeen{State: space.ExecutionRunning, Error: refusal, Refused: "op_1"}
	if ended, failure := operations.Outcome(record.PauseSandbox, seen); !ended || failure != refusal {
		t.Errorf("a refused pause: %v, %v", ended, failure)
	}
}

func TestSnapshotOutcome(t *testing.T) {
	no := space.Errorf(space.CodeCapacity, "no")
	for _, x := range []struct {
		kind    record.OperationKind
		seen    record.SnapshotStatus
		ended   bool
		failure *space.Error
	}{
		{kind: record.SnapshotSandbox, seen: record.SnapshotStatus{State: record.SnapshotMaking}},
		{kind: record.SnapshotSandbox, seen: record.SnapshotStatus{State: record.SnapshotReady}, ended: true},
		{kind: record.SnapshotSandbox, seen: record.SnapshotStatus{State: record.SnapshotFailed, Error: no}, ended: true, failure: no},
		{kind: record.SuspendSandbox, seen: record.SnapshotStatus{State: record.SnapshotReady}},
		{kind: record.SuspendSandbox, seen: record.SnapshotStatus{State: record.SnapshotFailed, Error: no}, ended: true, failure: no},
		{kind: record.ForkSandbox, seen: record.SnapshotStatus{State: record.SnapshotReady}},
		{kind: record.RestoreSandbox, seen: record.SnapshotStatus{State: record.SnapshotLost, Error: no}},
	} {
		if ended, failure := operations.SnapshotOutcome(x.kind, x.seen); ended != x.ended || ended && failure != x.failure {
			t.Errorf("%s when its snapshot is %s: %v, %v", x.kind, x.seen.State, ended, failure)
		}
	}
}

func TestFallBack(t *testing.T) {
	for state, want := range map[space.ExecutionState]record.Desired{
		"running": "running", "paused": "paused", "suspended": "suspended", "stopped": "stopped", "lost": "running",
	} {
		if got := operations.FallBack(state); got != want {
			t.Errorf("of one that is %s %s is wanted", state, got)
		}
	}
}
