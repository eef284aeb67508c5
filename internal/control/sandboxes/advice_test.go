package sandboxes

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// TestAdviceIsLegal: a verb is advised exactly when it isn't refused, of whatever is left of a sandbox.
func TestAdviceIsLegal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySituation(t)
		s.Running = nil
		if State(s.Sandbox) == space.StateLost && rapid.Bool().Draw(t, "was suspended") {
			s.Sandbox.Execution.HeldBy = "snp_gone"
		}
		if rapid.Bool().Draw(t, "has a recovery point") {
			s.Sandbox.Recovery = &record.Recovery{Snapshot: "snp_00000000000000000000000000"}
		}
		s.Snapshot = func(ref string) (record.Snapshot, error) {
			return record.Snapshot{ID: ref, Route: space.Route{Sandbox: s.Sandbox.ID}, Status: record.SnapshotStatus{State: record.SnapshotReady}}, nil
		}
		_, toStart := start(s, "op_new", "exe_3", now)
		_, toRollBack := rollback(s, "op_new", "exe_3", "", false, now)
		_, toRestore := restore(s, "op_new", "exe_3", false, now)
		_, toResume := resume(s, "op_new")
		advice, state := nextStep(s.Sandbox), State(s.Sandbox)
		if state == space.StateRunning {
			if advice != "" {
				t.Fatalf("one that runs is advised: %s", advice)
			}
			return
		}
		for verb, refusal := range map[string]error{"start boots": toStart, "restore has": toRestore, "resume has": toResume} {
			if strings.Contains(advice, verb) != (refusal == nil) {
				t.Fatalf("of one that is %s, with %+v: %q, and that is refused with %v", state, s.Sandbox.Execution, advice, refusal)
			}
		}
		if state == space.StateLost && strings.Contains(advice, "rollback returns") != (toRollBack == nil) {
			t.Fatalf("of one that is lost, with the recovery point %+v: %q, and a rollback is refused with %v", s.Sandbox.Recovery, advice, toRollBack)
		}
	})
}

// TestAFailedStartIsNotAdvisedAgain if it found no disk.
func TestAFailedStartIsNotAdvisedAgain(t *testing.T) {
	box := record.Sandbox{Desired: record.DesiredRunning, Execution: record.Execution{Observed: space.ExecutionFailed, DiskOf: "exe_1", Disk: space.ExecutionLost}}
	for code, again := range map[space.Code]bool{space.CodeExecutionLost: false, space.CodeCapacity: true} {
		box.Execution.Error = space.Errorf(code, "no")
		if got := WaysOut(box); strings.Contains(got, "start boots") != again || !strings.Contains(got, "recovery point") {
			t.Errorf("after %s: %s", code, got)
		}
	}
}
