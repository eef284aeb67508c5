package nodesync

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// Plan is what follows from a report.
type Plan struct {
	Orders     []Order
	Executions []record.ExecutionSeen
	Templates  []record.TemplateSeen
	Logs       []record.LogSeen
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
	return d.plan
}

type decision struct {
	report  Report
	doubted map[string]bool
	now     time.Time
	plan    Plan
}

// executions compares whole routes: an execution that is reported with another epoch or placement isn't the one that is wanted.
func (d *decision) executions(wanted []record.WantedExecution) {
	reported := map[space.Route]ExecutionReport{}
	for _, r := range d.report.Executions {
		reported[r.Route] = r
	}
	known := map[space.Route]bool{}
	for _, w := range wanted {
		known[w.Route] = true
		r, there := reported[w.Route]
		switch {
		case there && w.Wanted:
			d.present(w, r)
		case there:
			d.remove(w.Route)
		case d.report.Complete:
			d.absent(w)
		}
	}
	for _, r := range d.report.Executions {
		if !known[r.Route] {
			d.remove(r.Route)
		}
	}
}

// present decides about an execution that is wanted and reported.
func (d *decision) present(w record.WantedExecution, r ExecutionReport) {
	final := w.Recorded == space.ExecutionFailed || w.Recorded == space.ExecutionLost
	switch {
	case final && (r.State == space.ExecutionRunning || r.State == space.ExecutionPending):
		d.remove(w.Route) // its end has been told: it must not come back
	case final:
	case r.State == space.ExecutionPending:
		d.order(ensure(w), true)
	case r.State == space.ExecutionFailed && w.Recorded == space.ExecutionRunning:
		d.see(w.Route, space.ExecutionLost, orLost(r.Error), r.Since) // it ran, so it's lost
	case r.State != w.Recorded:
		d.see(w.Route, r.State, endError(r), r.Since)
	}
}

// absent decides about an execution that a complete report doesn't mention.
func (d *decision) absent(w record.WantedExecution) {
	switch {
	case !w.Wanted:
		if d.believed(w.Route.Execution) {
			d.see(w.Route, space.ExecutionGone, nil, d.now)
		}
	case w.Recorded == space.ExecutionPending:
		d.order(ensure(w), false)
	case w.Recorded == space.ExecutionRunning:
		if d.believed(w.Route.Execution) {
			d.see(w.Route, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the node no longer has the sandbox's machine"), d.now)
		}
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

func (d *decision) remove(r space.Route) {
	d.order(Order{Kind: RemoveExecution, Route: r}, true)
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

func ensure(w record.WantedExecution) Order {
	return Order{Kind: EnsureExecution, Route: w.Route, Template: w.Template, Shape: w.Shape}
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

func orLost(err *space.Error) *space.Error {
	if err == nil {
		return space.Errorf(space.CodeExecutionLost, "the sandbox's machine is gone, and the node gave no reason")
	}
	return err
}
