package manager

import (
	"time"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/telemetry"
)

// The states of a template as reports name them.
const (
	templateBuilding = "building"
	templateReady    = "ready"
	templateFailed   = "failed"
)

// templateOrder is what was ordered about a template and doesn't show on the host yet: a build, or its removal. Until a build shows, the
// report says that the template is being built: an earlier failure that the host still shows would be taken for the new build's. Until a
// removal shows, the host's own report stands.
type templateOrder struct {
	Template string          `json:"template"`
	Order    message         `json:"order,omitempty"`  // an EnsureTemplate
	Remove   bool            `json:"remove,omitempty"` // it's to be removed; then there's no Order
	Cause    telemetry.Cause `json:"cause,omitzero"`   // what asked for it
	Err      *problem        `json:"error,omitempty"`  // the host refused to build it for good; the order stays until the next one

	secret bool      // the order has a login: it's in memory only, and ordered again if this process dies before the host has it
	called time.Time // when the host accepted; not kept, because the call can be repeated
}

// confirmTemplate is how long an accepted order may take to show up in a Watch message. After it the host's word counts, whatever it is.
const confirmTemplate = 10 * time.Second

// decideTemplate returns what an order lacks: to be told to the host, or to be seen in its reports.
func decideTemplate(o templateOrder) action {
	switch {
	case o.Err != nil:
		return actNone
	case o.called.IsZero() && o.Remove:
		return actDrop
	case o.called.IsZero():
		return actBuild
	default:
		return actSettle
	}
}

// settled reports whether the host's own report stands for an order from now on. state is "" if the host doesn't show the template.
func (o templateOrder) settled(state string, now time.Time) bool {
	switch {
	case o.called.IsZero():
		return !o.Remove && (state == templateBuilding || state == templateReady)
	case now.Sub(o.called) >= confirmTemplate:
		return true
	case o.Remove:
		return state == ""
	default:
		return state == templateBuilding || state == templateReady
	}
}

// report is the order of a build as the control plane reads it.
func (o templateOrder) report() *controlv1.TemplateReport {
	if o.Err != nil {
		return &controlv1.TemplateReport{Template: o.Template, State: templateFailed, Error: peer.ErrorMessage(o.Err.err())}
	}
	return &controlv1.TemplateReport{Template: o.Template, State: templateBuilding, Progress: "waiting for the node to begin"}
}

// orderTemplate adds to c that a template is to be built. mu is held.
func (t *table) orderTemplate(c change, o *controlv1.EnsureTemplate, cause telemetry.Cause) (string, error) {
	id := o.GetTemplate()
	old, ordered, err := t.ordered(c, id)
	switch {
	case err != nil:
		return id, err
	case ordered && old.Remove:
		return id, space.Errorf(space.CodeConflict, "template %s is being removed", id)
	case ordered && old.Err == nil:
		return id, nil
	}
	if state := t.host.template(id); state == templateBuilding || state == templateReady {
		return id, nil
	}
	order, err := messageOf(o)
	if err != nil {
		return id, err
	}
	c.orders[id] = &templateOrder{Template: id, Order: order, Cause: cause, secret: o.GetRegistryAuth() != nil}
	return id, nil
}

// orderDrop adds to c that a template is to be removed, also one whose build was ordered and hasn't begun. mu is held.
func (t *table) orderDrop(c change, o *controlv1.RemoveTemplate, cause telemetry.Cause) (string, error) {
	id := o.GetTemplate()
	old, ordered, err := t.ordered(c, id)
	if err != nil || ordered && old.Remove {
		return id, err
	}
	c.orders[id] = &templateOrder{Template: id, Remove: true, Cause: cause}
	return id, nil
}

// ordered returns the order that stands about a template. It refuses what isn't a template's id, and a new order over the limit. mu is held.
func (t *table) ordered(c change, id string) (old templateOrder, there bool, err error) {
	if err := space.CheckID(space.PrefixTemplate, id); err != nil {
		return templateOrder{}, false, space.FieldErrorf("template", "%v", err)
	}
	old, there = t.orders[id]
	if !there && len(t.orders)+len(c.orders) >= maxTemplateOrders {
		return templateOrder{}, false, space.Errorf(space.CodeCapacity, "%d orders about templates wait already", maxTemplateOrders)
	}
	return old, there, nil
}
