package cli

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestRecordedSessions shows sessions that the control plane knows as the sandbox would: all that is known, and none that was never started.
func TestRecordedSessions(t *testing.T) {
	yes, why, code, signal, cwd, user := true, "the machine is gone", 3, "SIGTERM", "/srv", "app"
	argv, at, output := []string{"make", "all"}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), int64(7)
	list, err := recordedSessions(sequence(nil,
		client.Session{Id: "ses_1", State: "created", Argv: &argv},
		client.Session{Id: "ses_2", State: "started", Argv: &argv, Cwd: &cwd, User: &user, Tty: &client.TerminalSize{Rows: 1, Cols: 1}, StartedAt: &at},
		client.Session{Id: "ses_3", State: "ended", Argv: &argv, StartedAt: &at, EndedAt: &at, Code: &code, Stopped: &yes, OutputBytes: &output},
		client.Session{Id: "ses_4", State: "ended", Signal: &signal, TimedOut: &yes, Lost: &yes, Error: &why},
	))
	want := []client.LiveSession{
		{Id: "ses_2", State: "running", Argv: argv, Cwd: &cwd, User: &user, Tty: true, StartedAt: &at},
		{Id: "ses_3", State: "ended", Argv: argv, StartedAt: &at, EndedAt: &at, Code: &code, Stopped: &yes, OutputBytes: output},
		{Id: "ses_4", State: "ended", Argv: []string{}, Signal: &signal, TimedOut: &yes, Lost: &yes, Error: &why},
	}
	if diff := cmp.Diff(want, list); err != nil || diff != "" {
		t.Errorf("%v, want and got:\n%s", err, diff)
	}
	if list, err := recordedSessions(sequence(errors.New("broken off"), client.Session{Id: "ses_1", State: "started"})); err == nil || list != nil {
		t.Errorf("a list that breaks off: %v, %v", list, err)
	}
}

// sequence has the sessions, and then err if there is one.
func sequence(err error, all ...client.Session) iter.Seq2[client.Session, error] {
	return func(yield func(client.Session, error) bool) {
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
		if err != nil {
			yield(client.Session{}, err)
		}
	}
}
