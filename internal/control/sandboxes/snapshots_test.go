package sandboxes

import (
	"context"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// changing is a store that answers changes with err.
type changing struct {
	Store
	err error
}

func (c changing) SandboxEnv(context.Context, string, string) (map[string]string, error) {
	return nil, nil
}

func (c changing) ChangeSandbox(
	_ context.Context, _, _, operation string, _ record.Request, _ func(record.Situation) (record.Change, error),
) (record.Changed, error) {
	return record.Changed{Operation: operation, Node: "n"}, c.err
}

// TestForkRingsDeadlines holds that deadlines are looked at anew when sandboxes are made with one, and only then.
func TestForkRingsDeadlines(t *testing.T) {
	for _, err := range []error{nil, space.Errorf(space.CodeConflict, "no")} {
		bell := new(wake.Bell)
		rung, stop := bell.Listen(wake.Deadlines)
		defer stop()
		operation, got := New(changing{err: err}, nil, bell).Fork(t.Context(), "prj", space.NewID(space.PrefixSandbox), Fork{Count: 1}, record.Request{})
		if (got == nil) != (err == nil) || (operation != "") != (err == nil) || (len(rung) > 0) != (err == nil) {
			t.Errorf("%v: operation %q, %v; rung %d times", err, operation, got, len(rung))
		}
	}
}
