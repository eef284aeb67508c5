package guest

import (
	"context"
	"syscall"
	"testing"

	"github.com/space-platform/space/internal/guest/process"
)

// TestNothingStartsAfterTerminate opens a session when all processes were ended, and one whose start had begun before: of neither a process is left.
func TestNothingStartsAfterTerminate(t *testing.T) {
	for name, during := range map[string]bool{"after": false, "during the start": true} {
		t.Run(name, func(t *testing.T) {
			var table *process.Table
			terminate := func() { table.Terminate(t.Context(), 0) }
			attr := process.Attributes{DieWithParent: true}
			if during {
				attr.Prepare = terminate
			}
			table = process.NewTable(reaper, attr)
			if !during {
				terminate()
			}
			s, err := table.Open("ses_late", process.Spec{Argv: []string{"sleep", "600"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(table.KillAll)
			ctx, cancel := context.WithTimeout(t.Context(), testLimit)
			defer cancel()
			if _, _, _, err := s.Next(ctx, 0, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			exit := s.Exit()
			if during && (exit.Signal != syscall.SIGKILL || !exit.Stopped) {
				t.Errorf("it ended with %+v", exit)
			}
			if !during && (exit.Err == nil || exit.Err.Error() != "the sandbox is being stopped" || s.PID() != 0) {
				t.Errorf("it ended with %+v, as process %d", exit, s.PID())
			}
		})
	}
}
