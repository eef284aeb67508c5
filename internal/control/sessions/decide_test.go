package sessions

import (
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// TestDecideAsleep: who comes back by itself wakes nothing, reads what there is, and waits for the rest.
func TestDecideAsleep(t *testing.T) {
	joins, returns, tells, telling := may{start: true, wake: true}, may{start: true}, may{wake: true}, may{}
	for _, x := range []struct {
		name     string
		observed space.ExecutionState
		desired  record.Desired
		begun    bool
		stays    bool // auto_wake is false
		may      may
		want     step // 0: a conflict
	}{
		{"a user's attach to a suspended one", space.ExecutionSuspended, record.DesiredSuspended, true, false, joins, stepWake},
		{"a user's attach to a paused one", space.ExecutionPaused, record.DesiredPaused, true, false, joins, stepWake},
		{"a user's attach to one that mustn't be woken", space.ExecutionSuspended, record.DesiredSuspended, true, true, joins, stepRead},
		{"a user's first attach to such a one", space.ExecutionSuspended, record.DesiredSuspended, false, true, joins, 0},
		{"back in a suspended one", space.ExecutionSuspended, record.DesiredSuspended, true, false, returns, stepRead},
		{"back in a paused one", space.ExecutionPaused, record.DesiredPaused, true, false, returns, stepOpen},
		{"back in one that is about to be suspended", space.ExecutionRunning, record.DesiredSuspended, true, false, returns, stepOpen},
		{"back before anything began", space.ExecutionSuspended, record.DesiredSuspended, false, false, returns, stepWait},
		{"a signal to a suspended one", space.ExecutionSuspended, record.DesiredSuspended, true, false, tells, stepWake},
		{"input that follows, to a suspended one", space.ExecutionSuspended, record.DesiredSuspended, true, false, telling, stepWait},
		{"the same where it mustn't be woken", space.ExecutionSuspended, record.DesiredSuspended, true, true, telling, stepWait},
		{"input that follows, to a paused one", space.ExecutionPaused, record.DesiredPaused, true, false, telling, stepWait},
		{"input that follows, to one that runs", space.ExecutionRunning, record.DesiredRunning, true, false, telling, stepOpen},
	} {
		target := target(x.observed, map[bool]string{true: "exe_1"}[x.begun])
		target.Desired, target.AutoWake = x.desired, !x.stays
		got, err := decide(target, "ses_1", x.may)
		if got != x.want || (err == nil) != (x.want != 0) {
			t.Errorf("%s: step %d, %v, want %d", x.name, got, err, x.want)
		}
	}
}

// TestDecide draws what a token can open and holds every decision to the rules that must hold whatever else is so.
func TestDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		current := rapid.SampledFrom([]string{"exe_1", "exe_2"}).Draw(t, "current")
		target := record.Target{
			Session: record.Session{
				ID:        rapid.SampledFrom([]string{"ses_1", "ses_2"}).Draw(t, "token's session"),
				Execution: rapid.SampledFrom([]string{"", "exe_1", "exe_2"}).Draw(t, "session's execution"),
			},
			Sandbox: "sbx_1", Desired: rapid.SampledFrom([]record.Desired{record.DesiredRunning, record.DesiredStopped, record.DesiredDeleted}).Draw(t, "desired"),
			Execution: record.Execution{Route: space.Route{Execution: current}, Observed: rapid.SampledFrom([]space.ExecutionState{
				space.ExecutionPending, space.ExecutionRunning, space.ExecutionFailed, space.ExecutionStopped, space.ExecutionLost, space.ExecutionGone,
			}).Draw(t, "observed")},
			Expired: rapid.Bool().Draw(t, "expired"), Revoked: rapid.Bool().Draw(t, "revoked"),
		}
		if rapid.Bool().Draw(t, "from a disk") {
			target.Execution.DiskOf = "exe_0"
		}
		next, err := decide(target, "ses_1", may{start: true, wake: true})
		fresh := !target.Expired && !target.Revoked && target.Session.ID == "ses_1"
		wanted, observed := target.Desired == record.DesiredRunning, target.Execution.Observed
		stays := target.Desired != record.DesiredDeleted
		unfixed, same := target.Session.Execution == "", target.Session.Execution == current
		here := fresh && stays && (unfixed || same)
		for _, rule := range []struct {
			name string
			want bool
			got  bool
		}{
			{"opens what runs, to its last moment", here && same && observed == space.ExecutionRunning, next == stepOpen},
			{"begins nothing in what is to stop", here && unfixed && wanted && observed == space.ExecutionRunning, next == stepFix},
			{"waits", here && observed == space.ExecutionPending, next == stepWait},
			{"reads what ended with its execution", fresh && stays && (same && (observed == space.ExecutionStopped || observed == space.ExecutionLost) || !unfixed && !same && observed != space.ExecutionGone), next == stepRead},
			{"what hasn't begun can after a start", here && (unfixed && (observed == space.ExecutionStopped || observed == space.ExecutionRunning && !wanted) || observed == space.ExecutionFailed && target.Execution.DiskOf != ""),
				space.CodeOf(err) == space.CodeConflict},
			{"another session's token is refused", !target.Revoked && target.Session.ID != "ses_1", space.CodeOf(err) == space.CodeForbidden},
			{"a revoked token isn't known", target.Revoked, space.CodeOf(err) == space.CodeUnauthenticated},
			{"an error or a step", true, (err == nil) != (next == 0)},
		} {
			if rule.want != rule.got {
				t.Fatalf("%s: want %v, got step %d, error %v", rule.name, rule.want, next, err)
			}
		}
	})
}
