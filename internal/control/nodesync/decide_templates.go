package nodesync

import (
	"fmt"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// templates decides about all that is wanted, and about what is reported and isn't.
func (d *decision) templates(wanted record.Wanted) {
	reported := map[string]TemplateReport{}
	for _, r := range d.report.Templates {
		reported[r.ID] = r
	}
	known := map[string]bool{}
	for _, w := range wanted.Templates {
		known[w.ID] = true
		r, there := reported[w.ID]
		switch {
		case w.Recorded.State == record.TemplateFailed: // final: the next build is another template
			d.log(w, r)
		case there:
			d.seeTemplate(w, r)
		case d.report.Complete:
			d.absentTemplate(w)
		}
	}
	for _, e := range wanted.Executions {
		known[e.Template] = true // as long as a machine is there that was made from it
	}
	for _, r := range d.report.Templates {
		d.received(r)
		if !known[r.ID] {
			d.order(Order{Kind: RemoveTemplate, Template: r.ID}, true)
		}
	}
}

// absentTemplate orders a build. A template that was ready and is missing, for example from a new volume, is built again.
func (d *decision) absentTemplate(w record.WantedTemplate) {
	if w.Recorded.State == record.TemplateReady {
		if !d.believed(w.ID) {
			return
		}
		d.plan.Templates = append(d.plan.Templates, record.TemplateSeen{ID: w.ID, Status: record.TemplateStatus{State: record.TemplateBuilding}})
	}
	d.order(Order{Kind: EnsureTemplate, Template: w.ID, Cause: w.Cause}, false)
}

// seeTemplate writes what is new. The end of a build waits for the last line of its log, so that who reads the log until then has all.
func (d *decision) seeTemplate(w record.WantedTemplate, r TemplateReport) {
	news := d.log(w, r)
	s := r.Status
	switch s.State {
	case record.TemplateFailed:
		s = record.TemplateStatus{State: s.State, FailedStep: s.FailedStep, Error: buildError(s)}
	case record.TemplateReady:
		s = record.TemplateStatus{State: s.State, Shape: s.Shape, Digest: s.Digest}
	default:
		s = record.TemplateStatus{State: s.State, Progress: s.Progress}
	}
	if s == w.Recorded || news && s.State != record.TemplateBuilding {
		return
	}
	seen := record.TemplateSeen{ID: w.ID, Status: s}
	if s.State == record.TemplateReady {
		seen.Defaults = r.Defaults
	}
	d.plan.Templates = append(d.plan.Templates, seen)
}

// buildError is why a build failed. It names the step, if it was one.
func buildError(s record.TemplateStatus) *space.Error {
	err := s.Error
	if err == nil {
		err = space.Errorf(space.CodeInternal, "the build failed, and the node gave no reason")
	}
	if s.FailedStep < 1 {
		return err
	}
	return &space.Error{Code: err.Code, Field: err.Field, Message: fmt.Sprintf("step %d: %s", s.FailedStep, err.Message)}
}

// log adds what is new of a template's log to the plan, and reports whether something is.
func (d *decision) log(w record.WantedTemplate, r TemplateReport) bool {
	fresh, anew := freshLines(w.Log, r.Log)
	if len(fresh) == 0 {
		return false
	}
	d.plan.Logs = append(d.plan.Logs, record.LogSeen{Template: w.ID, Anew: anew, Lines: fresh})
	return true
}

// received acknowledges the lines of a report, wanted or not: the node need not send them again.
func (d *decision) received(r TemplateReport) {
	if n := len(r.Log); n > 0 {
		d.plan.LogsReceived[r.ID] = r.Log[n-1].Number
	}
}

// freshLines returns those of a report's lines that aren't recorded, and whether they are another build's than those that are: then they
// begin with a number that was had before, at a later time. Lines that are sent again have the times that they had.
func freshLines(head record.LogHead, lines []record.LogLine) (fresh []record.LogLine, anew bool) {
	if len(lines) == 0 {
		return nil, false
	}
	if first := lines[0]; first.Number <= head.Newest && first.At.After(head.NewestAt) {
		return lines, true
	}
	for i, l := range lines {
		if l.Number > head.Newest {
			return lines[i:], false
		}
	}
	return nil, false
}
