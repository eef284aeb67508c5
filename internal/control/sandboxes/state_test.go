package sandboxes_test

import (
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// next is what may be recorded of an execution after what, as the store enforces it.
var next = map[space.ExecutionState][]space.ExecutionState{
	space.ExecutionPending: {space.ExecutionRunning, space.ExecutionFailed, space.ExecutionLost},
	space.ExecutionRunning: {space.ExecutionLost},
	space.ExecutionFailed:  {},
	space.ExecutionLost:    {},
	space.ExecutionGone:    {},
}

// TestStatesFollowTheTable walks through what can happen to a sandbox and holds what is shown to the vocabulary's transitions.
func TestStatesFollowTheTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		desired, observed := record.DesiredRunning, space.ExecutionPending
		shown := sandboxes.State(desired, observed)
		for range 6 {
			options := next[observed]
			switch {
			case desired == record.DesiredRunning && rapid.Bool().Draw(t, "delete"):
				desired = record.DesiredDeleted
			case desired == record.DesiredDeleted && rapid.Bool().Draw(t, "gone"):
				observed = space.ExecutionGone
			case len(options) > 0:
				observed = rapid.SampledFrom(options).Draw(t, "observed")
			}
			now := sandboxes.State(desired, observed)
			if now != shown && !shown.CanBecome(now) {
				t.Fatalf("%s became %s", shown, now)
			}
			shown = now
		}
	})
}

func TestState(t *testing.T) {
	for observed, want := range map[space.ExecutionState]space.State{
		space.ExecutionPending: space.StateCreating, space.ExecutionRunning: space.StateRunning, space.ExecutionFailed: space.StateFailed,
		space.ExecutionLost: space.StateLost, space.ExecutionGone: space.StateLost,
	} {
		if got := sandboxes.State(record.DesiredRunning, observed); got != want {
			t.Errorf("%s while it's wanted: %s, want %s", observed, got, want)
		}
		want := space.StateDeleting
		if observed == space.ExecutionGone {
			want = space.StateDeleted
		}
		if got := sandboxes.State(record.DesiredDeleted, observed); got != want {
			t.Errorf("%s while it's to go: %s, want %s", observed, got, want)
		}
	}
}
