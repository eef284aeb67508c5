package manager

import (
	"time"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/telemetry"
)

// action is what a record lacks.
type action int

const (
	actNone    action = iota
	actEnsure         // the host must make the execution
	actPause          // the host must have it stand still
	actResume         // the host must have it go on
	actSuspend        // the host must suspend it
	actStop           // the host must stop it
	actRemove         // the host must remove it
	actBuild          // the host must be told of a template's order
	actDrop           // the host must remove a template
	actSettle         // the host was told, and hasn't shown it yet
	actTake           // the host must take a snapshot
	actDiscard        // the host must remove a snapshot
	actConfirm        // the host was told of a snapshot, and hasn't shown it yet
)

// decide returns what the host has to do so that a record comes true.
func decide(r record) action {
	switch {
	case r.Wanted == wantRemoved && !r.Removed:
		return actRemove
	case r.Wanted != wantRemoved && r.State == space.ExecutionPending && r.Order != "":
		return actEnsure
	case r.Wanted == wantPaused && r.State == space.ExecutionRunning:
		return actPause
	case r.Wanted == wantRunning && r.State == space.ExecutionPaused:
		return actResume
	case r.Wanted == wantSuspended && live(r.State):
		return actSuspend
	case r.Wanted == wantStopped && live(r.State):
		return actStop
	default:
		return actNone
	}
}

// live reports whether an execution has a machine.
func live(s space.ExecutionState) bool {
	return s == space.ExecutionRunning || s == space.ExecutionPaused
}

// orderRun is the record after EnsureExecution was ordered; old is its record and newest its sandbox's newest one, nil where there is
// none. The error says why the order is refused: the record then stays as it is.
func orderRun(old, newest *record, order record, now time.Time) (record, error) {
	if old == nil && newest != nil && newest.Route.Epoch >= order.Route.Epoch {
		return record{}, space.Errorf(space.CodeRouteStale, "sandbox %s is at epoch %d already", order.Route.Sandbox, newest.Route.Epoch)
	}
	if old == nil {
		order.Wanted, order.State, order.Since = wantRunning, space.ExecutionPending, now
		return order, nil
	}
	if err := order.Route.Match(old.Route); err != nil {
		return record{}, err
	}
	if old.Wanted == wantRemoved {
		return record{}, space.Errorf(space.CodeConflict, "execution %s was ordered to be removed", old.Route.Execution)
	}
	r := *old
	if r.Order == "" {
		r.Order, r.Cause = order.Order, order.Cause
	}
	return r, nil
}

// orderStop is the record after StopExecution was ordered. One that isn't running yet is stopped when it does; one that has ended stays as
// it ended, and one that is being stopped has the grace that it was given first.
func orderStop(old *record, route space.Route, grace time.Duration, cause telemetry.Cause) (record, error) {
	if old == nil {
		return record{}, space.Errorf(space.CodeNotFound, "execution %s isn't on this node", route.Execution)
	}
	if err := route.Match(old.Route); err != nil {
		return record{}, err
	}
	if old.Wanted == wantRemoved {
		return record{}, space.Errorf(space.CodeConflict, "execution %s was ordered to be removed", route.Execution)
	}
	r := old.want(wantStopped, cause)
	if old.Wanted != wantStopped {
		r.Grace = grace
	}
	return r, nil
}

// orderRemove is the record after RemoveExecution was ordered. An unknown execution gets a tombstone too: the host may have it.
func orderRemove(old *record, route space.Route, cause telemetry.Cause, now time.Time) (record, error) {
	if old == nil {
		return record{Route: route, Wanted: wantRemoved, State: space.ExecutionPending, Cause: cause, Since: now}, nil
	}
	if err := route.Match(old.Route); err != nil {
		return record{}, err
	}
	return old.want(wantRemoved, cause), nil
}

// want is the record after something was ordered. The first order counts: one that is repeated changes nothing.
func (r record) want(w wanted, cause telemetry.Cause) record {
	if r.Wanted != w {
		r.Wanted, r.Cause = w, cause
	}
	return r
}

// seen is what a Watch message says of one execution.
type seen struct {
	Route space.Route
	State space.ExecutionState
	Err   *problem
	Since time.Time
	Usage *sandboxv1.Usage // nil if it wasn't told

	Snapshot string                   // of a suspended one
	Sessions []*controlv1.SessionCopy // that came with its snapshot
}

// observe is the record after a Watch message that has s about it; s is nil if the message doesn't name the execution, which means
// that the host has nothing of it.
func observe(r record, s *seen, now time.Time) record {
	if s == nil {
		return absent(r, now)
	}
	r.Removed = false // if it was a tombstone: the removal isn't finished
	if !follows(r.State, s.State) {
		return r
	}
	r.State, r.Err, r.Since = s.State, s.Err, s.Since
	if r.Since.IsZero() {
		r.Since = now
	}
	return r
}

// follows reports whether an execution can come from a state to next.
func follows(s, next space.ExecutionState) bool {
	switch next {
	case space.ExecutionRunning, space.ExecutionPaused:
		return s != next && (s == space.ExecutionPending || live(s))
	case space.ExecutionStopped, space.ExecutionSuspended:
		return s == space.ExecutionPending || live(s)
	default:
		return final(next) && !final(s)
	}
}

func absent(r record, now time.Time) record {
	what := map[space.ExecutionState]string{
		space.ExecutionRunning: "machine", space.ExecutionPaused: "machine", space.ExecutionStopped: "disk", space.ExecutionSuspended: "suspended machine",
	}[r.State]
	if what == "" || r.Wanted == wantRemoved {
		return r
	}
	r.State, r.Since = space.ExecutionLost, now
	r.Err = &problem{Code: space.CodeExecutionLost, Message: "the node has nothing left of the sandbox's " + what}
	return r
}

// adopt is the record of an execution that the host has and nobody ordered here. It's reported like any other, and the control plane
// orders its removal if it doesn't want it.
func adopt(s seen, now time.Time) record {
	w := wantRunning
	if s.State == space.ExecutionPaused { // nobody here knows who wanted that: it isn't resumed without an order
		w = wantPaused
	}
	return observe(record{Route: s.Route, Wanted: w, State: space.ExecutionPending, Since: now}, &s, now)
}

// fail is the record after the host refused EnsureExecution for good.
func fail(r record, err error, now time.Time) record {
	if r.State == space.ExecutionPending {
		r.State, r.Err, r.Since = space.ExecutionFailed, problemOf(err), now
	}
	return r
}

// final reports whether an execution can't leave a state but by being removed.
func final(s space.ExecutionState) bool {
	return s == space.ExecutionFailed || s == space.ExecutionLost
}

// admit says whether a request may reach an execution: r is the record that find chose for its route, nil if it chose none.
func admit(route space.Route, r *record) error {
	if err := admitReading(route, r); err != nil {
		return err
	}
	switch {
	case final(r.State):
		return lostError(*r)
	case r.State == space.ExecutionStopped:
		return space.Errorf(space.CodeConflict, "sandbox %s is stopped; start it", route.Sandbox)
	case r.State == space.ExecutionPaused:
		return space.Errorf(space.CodeRouteStale, "sandbox %s is paused, which the control plane hasn't heard yet", route.Sandbox)
	case r.State == space.ExecutionSuspended:
		return space.Errorf(space.CodeRouteStale, "sandbox %s is suspended, which the control plane hasn't heard yet", route.Sandbox)
	case r.State != space.ExecutionRunning:
		return space.Errorf(space.CodeUnavailable, "the machine of sandbox %s isn't running yet; try again", route.Sandbox)
	}
	return nil
}

// admitAttach says whether a session's stream may reach an execution that runs or has run. Of one that has ended, or sleeps, the host reads what is kept, and
// starts nothing: so a client that is attached gets all of it, at its own pace, and one that comes back before the control plane has heard of the
// end isn't turned away.
func admitAttach(route space.Route, r *record) error {
	err := admit(route, r)
	if r == nil {
		return err
	}
	switch r.State {
	case space.ExecutionStopped, space.ExecutionLost, space.ExecutionPaused, space.ExecutionSuspended:
		return admitReading(route, r)
	}
	return err
}

// keepStream says whether a stream that was admitted goes on though it wouldn't be admitted any more: a pause alone ends none, and what is suspended tells its
// clients itself.
func keepStream(route space.Route, r *record) error {
	if r != nil && (r.State == space.ExecutionPaused || r.State == space.ExecutionSuspended) {
		return admitReading(route, r)
	}
	return admit(route, r)
}

// admitReading says whether what is kept of a sandbox's ended sessions may be read by the route of an execution, which needn't run.
func admitReading(route space.Route, r *record) error {
	if r == nil {
		return space.Errorf(space.CodeRouteStale, "sandbox %s isn't on this node", route.Sandbox)
	}
	if err := route.Match(r.Route); err != nil {
		return err
	}
	if r.Wanted == wantRemoved {
		return space.Errorf(space.CodeExecutionLost, "the machine of sandbox %s was removed", route.Sandbox)
	}
	return nil
}

// lostError says why an execution is gone. The code is always execution_lost; the record's own error may be of another kind.
func lostError(r record) error {
	if err := r.Err.err(); err != nil && r.Err.Code == space.CodeExecutionLost {
		return err
	}
	if r.Err != nil {
		return space.Errorf(space.CodeExecutionLost, "the machine of sandbox %s is gone: %s", r.Route.Sandbox, r.Err.Message)
	}
	return space.Errorf(space.CodeExecutionLost, "the machine of sandbox %s is gone", r.Route.Sandbox)
}

// find chooses the record to compare a route with: the sandbox's newest if its execution is that sandbox's, else its execution's.
// Comparing with the newest is what keeps a request for an earlier incarnation out while that one is still being removed.
func find(records map[string]record, newest map[string]string, route space.Route) *record {
	r, known := records[route.Execution]
	if known && r.Route.Sandbox != route.Sandbox {
		return &r
	}
	if n, ok := records[newest[route.Sandbox]]; ok {
		return &n
	}
	return nil
}

// acknowledged reports whether a tombstone may go: the answer to a complete report that left the execution out doesn't name it.
func acknowledged(r record, reportedGone, named, listed bool) bool {
	return r.Removed && reportedGone && !named && !listed
}
