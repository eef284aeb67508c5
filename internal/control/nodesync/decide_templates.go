package nodesync

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

func (d *decision) templates(wanted []record.WantedTemplate) {
	reported := map[string]record.TemplateStatus{}
	for _, r := range d.report.Templates {
		reported[r.ID] = r.Status
	}
	for _, w := range wanted {
		if w.Recorded.State == record.TemplateFailed {
			continue // final: the next build is another template
		}
		status, there := reported[w.ID]
		switch {
		case there:
			d.seeTemplate(w, status)
		case d.report.Complete:
			d.absentTemplate(w)
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
	d.order(Order{Kind: EnsureTemplate, Template: w.ID, Recipe: w.Recipe, Shape: w.Shape}, false)
}

func (d *decision) seeTemplate(w record.WantedTemplate, s record.TemplateStatus) {
	switch s.State {
	case record.TemplateFailed:
		if s.Error == nil {
			s.Error = space.Errorf(space.CodeInternal, "the build failed, and the node gave no reason")
		}
		s = record.TemplateStatus{State: s.State, Error: s.Error}
	case record.TemplateReady:
		s = record.TemplateStatus{State: s.State, Shape: s.Shape, Digest: s.Digest}
	default:
		s = record.TemplateStatus{State: s.State, Progress: s.Progress}
	}
	if s != w.Recorded {
		d.plan.Templates = append(d.plan.Templates, record.TemplateSeen{ID: w.ID, Status: s})
	}
}
