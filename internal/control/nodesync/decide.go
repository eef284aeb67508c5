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
	// LogsReceived has the number of the newest line of each log that the report brought.
	LogsReceived map[string]int64
	// Doubts are the ids of executions and templates that were absent for the first time: the next report tells.
	Doubts map[string]bool
	// Repeats tells which orders the node has heard before: it reports what they are about.
	Repeats map[Order]bool
}

// Decide compares what is wanted and recorded with what a node reports at a time. doubted are the doubts of the plan before.
func Decide(wanted record.Wanted, report Report, doubted map[string]bool, now time.Time) Plan {
	d := decision{report: report, doubted: doubted, now: now, plan: Plan{
		Doubts: map[string]bool{}, Repeats: map[Order]bool{}, LogsReceived: map[string]int64{},
	}}
	d.executions(wanted.Executions)
	d.templates(wanted)
	d.uploads(wanted.Uploads)
	return d.plan
}

type decision struct {
	report  Report
	doubted map[string]bool
	now     time.Time
	busy    map[string]bool // executions that are reported to have a machine, or to be about to
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
	case record.WantRunning, record.WantStopped:
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
	case r.State == space.ExecutionFailed && w.Recorded == space.ExecutionRunning:
		d.see(w.Route, space.ExecutionLost, orLost(r.Error), r.Since) // it ran, so it's lost
	case r.State == space.ExecutionStopped && w.Want == record.WantRunning: // nobody has ordered it
		d.see(w.Route, space.ExecutionLost, orEndedByItself(r.Error), r.Since)
	case ended(r.State):
		d.see(w.Route, r.State, endError(r), r.Since)
	default: // it's there; that it runs may be news, and stopping it is another matter
		if r.State == space.ExecutionRunning && w.Recorded != space.ExecutionRunning {
			d.see(w.Route, r.State, nil, r.Since)
		}
		if w.Want == record.WantStopped {
			d.quieten(w, r)
		}
	}
}

// afterEnd decides about an execution whose end has been told: it must not come back. Its disk may be all that is left of a sandbox.
func (d *decision) afterEnd(w record.WantedExecution, r ExecutionReport) {
	switch {
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
	if !ended(r.State) {
		d.order(Order{Kind: StopExecution, Route: w.Route, Grace: w.Grace, Cause: w.Cause}, true)
	}
}

// ended reports whether an execution in a state has no machine any more.
func ended(s space.ExecutionState) bool {
	return s == space.ExecutionFailed || s == space.ExecutionStopped || s == space.ExecutionLost || s == space.ExecutionGone
}

// absent decides about an execution that a complete report doesn't mention.
func (d *decision) absent(w record.WantedExecution) {
	switch {
	case w.Want == record.WantGone:
		if d.believed(w.Route.Execution) {
			d.see(w.Route, space.ExecutionGone, nil, d.now)
		}
	case w.Want != record.WantRunning && w.Want != record.WantStopped:
	case w.Recorded == space.ExecutionPending:
		d.ensure(w, false)
	case w.Recorded == space.ExecutionRunning:
		d.lose(w, "the node no longer has the sandbox's machine")
	case w.Recorded == space.ExecutionStopped:
		d.lose(w, "the node no longer has the sandbox's disk")
	}
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

// ensure orders an execution, unless the disk that it boots from is still another machine's.
func (d *decision) ensure(w record.WantedExecution, repeat bool) {
	if w.DiskOf == "" || !d.busy[w.DiskOf] {
		d.order(Order{Kind: EnsureExecution, Route: w.Route, Template: w.Template, Shape: w.Shape, DiskOf: w.DiskOf, Cause: w.Cause}, repeat)
	}
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
