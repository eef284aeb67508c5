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
		record.CreateSandbox: {"pending": on, "running": good, "failed": bad, "lost": bad, "stopped": bad, "gone": bad},
		record.StartSandbox:  {"pending": on, "running": good, "failed": bad, "lost": bad, "stopped": bad, "gone": bad},
		record.StopSandbox:   {"pending": on, "running": on, "failed": bad, "lost": bad, "stopped": good, "gone": bad},
		record.DeleteSandbox: {"pending": on, "running": on, "failed": on, "lost": on, "stopped": on, "gone": on},
		record.BuildTemplate: {"running": on},
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
