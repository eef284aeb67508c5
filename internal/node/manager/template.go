package manager

import (
	"time"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
)

// The states of a template as reports name them.
const (
	templateBuilding = "building"
	templateReady    = "ready"
	templateFailed   = "failed"
)

// templateOrder is a build that was ordered and that the host doesn't show yet. Until it does the report says that the template is
// being built: an earlier failure that the host still shows would be taken for the new build's.
type templateOrder struct {
	Template string   `json:"template"`
	Recipe   string   `json:"recipe"`
	Shape    shape    `json:"shape"`
	Err      *problem `json:"error,omitempty"` // the host refused for good; the order stays until the next one

	called time.Time // when the host accepted; not kept, because the call can be repeated
}

// confirmTemplate is how long an accepted build may take to show up in a Watch message. After it the host's word counts, whatever it is.
const confirmTemplate = 10 * time.Second

// decideTemplate returns what an order lacks: to be told to the host, or to be seen in its reports.
func decideTemplate(o templateOrder) action {
	switch {
	case o.Err != nil:
		return actNone
	case o.called.IsZero():
		return actBuild
	default:
		return actSettle
	}
}

// settled reports whether the host's own report stands for an order from now on. state is "" if the host doesn't show the template.
func (o templateOrder) settled(state string, now time.Time) bool {
	if state == templateBuilding || state == templateReady {
		return true
	}
	return !o.called.IsZero() && now.Sub(o.called) >= confirmTemplate
}

// report is the order as the control plane reads it.
func (o templateOrder) report() *controlv1.TemplateReport {
	if o.Err != nil {
		return &controlv1.TemplateReport{Template: o.Template, State: templateFailed, Error: peer.ErrorMessage(o.Err.err())}
	}
	return &controlv1.TemplateReport{Template: o.Template, State: templateBuilding, Progress: "waiting for the node to begin"}
}

func (o templateOrder) ensure() *controlv1.EnsureTemplate {
	return &controlv1.EnsureTemplate{Template: o.Template, Recipe: o.Recipe, Shape: o.Shape.message()}
}
