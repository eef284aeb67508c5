package execution

import (
	"context"
	"testing"

	space "github.com/space-platform/space"
)

// TestNothingIsBegunWhenTheTimeIsOver has an order wait when the daemon ends: it's refused, since the owner may not even have found the machine.
func TestNothingIsBegunWhenTheTimeIsOver(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	for range 50 { // which of two things that are ready comes first is chance
		e := &execution{table: &Table{ctx: over}, commands: make(chan command, 1)}
		var why error
		e.commands <- command{do: func(context.Context) { t.Error("it was begun") }, refuse: func(err error) { why = err }}
		e.obey(over)
		e.hangUp(errStopping())
		if space.CodeOf(why) != space.CodeUnavailable {
			t.Fatalf("it was refused with %v", why)
		}
	}
}
