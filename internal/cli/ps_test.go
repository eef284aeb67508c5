package cli

import (
	"testing"

	"github.com/space-platform/space/client"
)

// TestFate: a session that was lost has an error too, which isn't that it couldn't be started.
func TestFate(t *testing.T) {
	yes, why, code, signal := true, "the machine is gone", 3, "SIGTERM"
	for want, s := range map[string]client.LiveSession{
		"lost":        {State: "ended", Lost: &yes, Error: &why},
		"not started": {State: "ended", Error: &why, Code: &code},
		"exit 3":      {State: "ended", Code: &code},
		"SIGTERM":     {State: "ended", Signal: &signal},
		"running":     {State: "running"},
	} {
		if got := fate(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
