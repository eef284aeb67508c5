package nodesync

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/telemetry"
)

// Plan is what follows from a report.
type Plan struct {
	Orders     []Order
	Executions []record.ExecutionSeen
	Templates  []record.TemplateSeen
	Logs       []record.LogSeen
	Uploads    []record.UploadSeen
	Snapshots  []record.SnapshotSeen
	// LogsReceived has the number of the newest line of each log that the report brought.
	LogsReceived map[string]int64
	// Doubts are the ids of executions, templates and snapshots that were absent for the first time: the next report tells.
	Doubts map[string]bool
	// Repeats tells which orders the node has heard before: it reports what they are about.
	Repeats map[Order]bool
}

// Decide compares what is wanted and recorded with what a node reports at a time. doubted are the doubts of the plan before.
func Decide(wanted record.Wanted, report Report, doubted map[string]bool, now time.Time) Plan {
	d := decision{report: report, doubted: doubted, now: now, plan: Plan{
		Doubts: map[string]bool{}, Repeats: map[Order]bool{}, LogsReceived: map[string]int64{},
	}}
	d.snapshots(wanted.Snapshots)
	d.executions(wanted.Executions)
	d.templates(wanted)
	d.uploads(wanted.Uploads)
	return d.plan
}

type decision struct {
	report  Report
	doubted map[string]bool
	now     time.Time
	busy    map[string]bool         // executions that are reported to have a machine, or to be about to
	kept    map[string]bool         // snapshots that are reported to be ready, or are recorded so and aren't believed to be lost
	failed  map[string]bool         // snapshots that are found to have failed
	lost    map[string]*space.Error // why snapshots are lost that are found to be
	plan    Plan
}

// executions compares whole routes: an execution that is reported with another epoch or placement isn't the one that is wanted.
func (d *decision) executions(wanted []record.WantedExecution) {
	reported := map[space.Route]ExecutionReport{}
	d.busy = map[string]bool{}
	for _, r := range d.report.Executions {
		reported[r.Route] = r
		d.busy[r.Route.Execution] = !ended(r.State)
	}
	known := map[space.Route]bool{}
	for _, w := range wanted {
		known[w.Route] = true
		if r, there := reported[w.Route]; there {
			d.present(w, r)
		} else if d.report.Complete {
			d.absent(w)
		}
	}
	for _, r := range d.report.Executions {
		if !known[r.Route] {
			d.remove(r.Route, telemetry.Cause{})
		}
	}
}

// present decides about an execution that is known and reported.
func (d *decision) present(w record.WantedExecution, r ExecutionReport) {
	switch w.Want {
	case record.WantGone:
		d.remove(w.Route, w.Cause)
	case record.WantDisk:
		d.quieten(w, r)
	case record.WantRunning, record.WantPaused, record.WantSuspended, record.WantStopped:
		if ended(w.Recorded) {
			d.afterEnd(w, r)
		} else {
			d.alive(w, r)
		}
	}
}

// alive decides about an execution whose end hasn't been told.
func (d *decision) alive(w record.WantedExecution, r ExecutionReport) {
	switch {
	case r.State == space.ExecutionPending && w.Want == record.WantRunning:
		d.ensure(w, true)
	case r.State == space.ExecutionSuspended:
		d.suspended(w, r)
	case r.State == space.ExecutionFailed && w.Recorded == space.ExecutionRunning:
		d.see(w.Route, space.ExecutionLost, orLost(r.Error), r.Since) // it ran, so it's lost
	case r.State == space.ExecutionStopped && w.Want != record.WantStopped: // nobody has ordered it
		d.see(w.Route, space.ExecutionLost, orEndedByItself(r.Error), r.Since)
	case ended(r.State):
		d.see(w.Route, r.State, endError(r), r.Since)
	case r.Refusal != nil && r.Refused == w.Operation && w.Operation != "" && r.State == w.Recorded:
		d.plan.Executions = append(d.plan.Executions, record.ExecutionSeen{Route: w.Route, State: r.State, Error: r.Refusal, Refused: r.Refused, Since: r.Since})
	default: // it's there; that it runs or stands still may be news, and what it should do is another matter
		if isNews(w, r.State) {
			d.plan.Executions = append(d.plan.Executions, record.ExecutionSeen{Route: w.Route, State: r.State, Since: r.Since, Sessions: r.Sessions})
		}
		d.move(w, r)
	}
}

// isNews reports whether a machine has come to what is wanted of it. What it did before that was wanted may be reported late: that's none.
func isNews(w record.WantedExecution, is space.ExecutionState) bool {
	switch is {
	case w.Recorded:
		return false
	case space.ExecutionRunning:
		return w.Want != record.WantPaused || w.Recorded == space.ExecutionPending
	case space.ExecutionPaused:
		return w.Want != record.WantRunning
	default:
		return false
	}
}

// move orders what a machine that runs or stands still should do instead.
func (d *decision) move(w record.WantedExecution, r ExecutionReport) {
	switch o := (Order{Route: w.Route, Cause: w.Cause}); {
	case w.Want == record.WantStopped:
		d.quieten(w, r)
	case r.State == space.ExecutionPending:
	case w.Want == record.WantPaused && r.State == space.ExecutionRunning:
		o.Kind, o.Operation = PauseExecution, w.Operation
		d.order(o, true)
	case w.Want == record.WantRunning && r.State == space.ExecutionPaused:
		o.Kind, o.Operation = ResumeExecution, w.Operation
		d.order(o, true)
	case w.Want == record.WantSuspended && !d.failed[w.SuspendInto]:
		o.Kind, o.Snapshot = SuspendExecution, w.SuspendInto
		d.order(o, true)
	}
}

// suspended decides about an execution whose machine has ended with its memory in a snapshot. It's believed with that snapshot only: the two are recorded together.
// One whose snapshot is gone has nothing left.
func (d *decision) suspended(w record.WantedExecution, r ExecutionReport) {
	switch {
	case r.HeldBy == "" || !d.kept[r.HeldBy]:
		if d.report.Complete && d.believed(w.Route.Execution) {
			w.HeldBy = r.HeldBy
			d.loseHeld(w)
		}
	default:
		d.plan.Executions = append(d.plan.Executions, record.ExecutionSeen{Route: w.Route, State: r.State, Since: r.Since, HeldBy: r.HeldBy})
	}
}

// afterEnd decides about an execution whose end has been told: it must not come back. Its disk may be all that is left of a sandbox.
func (d *decision) afterEnd(w record.WantedExecution, r ExecutionReport) {
	switch {
	case w.Recorded == space.ExecutionSuspended && !d.kept[w.HeldBy]:
		d.loseHeld(w)
	case w.Recorded == space.ExecutionFailed && !ended(r.State):
		d.remove(w.Route, w.Cause)
	case w.Recorded == space.ExecutionStopped && (r.State == space.ExecutionLost || r.State == space.ExecutionFailed):
		d.see(w.Route, space.ExecutionLost, orLost(r.Error), r.Since) // its disk is gone
	default:
		d.quieten(w, r)
	}
}

// quieten ends the machine of an execution of which only the disk is wanted, if there is one.
func (d *decision) quieten(w record.WantedExecution, r ExecutionReport) {
	if w.Recorded == space.ExecutionSuspended && !ended(r.State) {
		return // what it's suspended into is what counts; that it's still told so is late
	}
	if !ended(r.State) {
		d.order(Order{Kind: StopExecution, Route: w.Route, Grace: w.Grace, Cause: w.Cause}, true)
	}
}

// ended reports whether an execution in a state has no machine any more.
func ended(s space.ExecutionState) bool {
	return s == space.ExecutionFailed || s == space.ExecutionStopped || s == space.ExecutionSuspended || s == space.ExecutionLost || s == space.ExecutionGone
}

// absent decides about an execution that a complete report doesn't mention.
func (d *decision) absent(w record.WantedExecution) {
	switch {
	case w.Want == record.WantGone:
		if d.believed(w.Route.Execution) {
			d.see(w.Route, space.ExecutionGone, nil, d.now)
		}
	case w.Want == record.WantDisk || w.Want == record.WantKept || w.Want == "":
	case w.Recorded == space.ExecutionPending:
		d.ensure(w, false)
	case w.Recorded == space.ExecutionSuspended: // all of it is its snapshot
		if !d.kept[w.HeldBy] {
			d.loseHeld(w)
		}
	case w.Recorded == space.ExecutionRunning || w.Recorded == space.ExecutionPaused:
		d.lose(w, "the node no longer has the sandbox's machine")
	case w.Recorded == space.ExecutionStopped:
		d.lose(w, "the node no longer has the sandbox's disk")
	}
}

// loseHeld decides about a suspended execution whose snapshot isn't there: whether that is believed was decided about the snapshot.
func (d *decision) loseHeld(w record.WantedExecution) {
	d.plan.Executions = append(d.plan.Executions, record.ExecutionSeen{
		Route: w.Route, State: space.ExecutionLost, HeldBy: w.HeldBy, Since: d.now,
		Error: whyLost(d.lost[w.HeldBy]),
	})
}

// whyLost is why a sandbox is lost that was suspended into a snapshot.
func whyLost(snapshot *space.Error) *space.Error {
	if snapshot == nil || snapshot.Code == space.CodeExecutionLost {
		return space.Errorf(space.CodeExecutionLost, "the node no longer has the snapshot that the sandbox was suspended into")
	}
	return space.Errorf(space.CodeExecutionLost, "what the sandbox was suspended into can't be used any more: %s", snapshot.Message)
}

func (d *decision) lose(w record.WantedExecution, why string) {
	if d.believed(w.Route.Execution) {
		d.see(w.Route, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "%s", why), d.now)
	}
}

// believed reports whether an absence was doubted before; if not, it's doubted now.
func (d *decision) believed(id string) bool {
	if d.doubted[id] {
		return true
	}
	d.plan.Doubts[id] = true
	return false
}

func (d *decision) remove(r space.Route, cause telemetry.Cause) {
	d.order(Order{Kind: RemoveExecution, Route: r, Cause: cause}, true)
}

func (d *decision) order(o Order, repeat bool) {
	if _, given := d.plan.Repeats[o]; given {
		return // reported twice
	}
	d.plan.Orders = append(d.plan.Orders, o)
	d.plan.Repeats[o] = repeat
}

func (d *decision) see(r space.Route, state space.ExecutionState, err *space.Error, since time.Time) {
	d.plan.Executions = append(d.plan.Executions, record.ExecutionSeen{Route: r, State: state, Error: err, Since: since})
}

// ensure orders an execution, unless the disk that it boots from is still another machine's, or its snapshot isn't ready yet. One whose snapshot couldn't be
// made, or is gone, never comes to run.
func (d *decision) ensure(w record.WantedExecution, repeat bool) {
	switch {
	case w.DiskOf != "" && d.busy[w.DiskOf]:
	case w.From.Snapshot == "", w.From.State == record.SnapshotReady && d.kept[w.From.Snapshot]:
		d.order(Order{
			Kind: EnsureExecution, Route: w.Route, Template: w.Template, Shape: w.Shape, DiskOf: w.DiskOf, Snapshot: w.From.Snapshot, Digest: w.From.Digest,
			Cold: w.From.Cold, Cause: w.Cause,
		}, repeat)
	case w.From.State == record.SnapshotFailed, w.From.State == record.SnapshotLost, w.From.State == record.SnapshotGone:
		d.see(w.Route, space.ExecutionFailed, unloadable(w.From), d.now)
	}
}

func unloadable(from record.Loading) *space.Error {
	switch {
	case from.Error == nil:
		return space.Errorf(space.CodeConflict, "the snapshot %s was deleted before the sandbox was loaded from it", from.Snapshot)
	case from.State == record.SnapshotFailed:
		return space.Errorf(from.Error.Code, "the snapshot %s couldn't be made: %s", from.Snapshot, from.Error.Message)
	}
	return space.Errorf(from.Error.Code, "the snapshot %s can't be loaded: %s", from.Snapshot, from.Error.Message)
}

// endError is the typed error of a reported end; a node that gave none doesn't make it silent.
func endError(r ExecutionReport) *space.Error {
	switch r.State {
	case space.ExecutionLost:
		return orLost(r.Error)
	case space.ExecutionFailed:
		if r.Error == nil {
			return space.Errorf(space.CodeInternal, "the sandbox's machine failed to start, and the node gave no reason")
		}
		return r.Error
	default:
		return nil
	}
}

func orEndedByItself(err *space.Error) *space.Error {
	if err == nil {
		return space.Errorf(space.CodeExecutionLost, "the sandbox's machine has ended by itself; its disk is kept, and the sandbox can be started from it")
	}
	return err
}

func orLost(err *space.Error) *space.Error {
	if err == nil {
		return space.Errorf(space.CodeExecutionLost, "the sandbox's machine is gone, and the node gave no reason")
	}
	return err
}
