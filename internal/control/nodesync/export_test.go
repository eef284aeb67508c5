package nodesync

import (
	"strings"
	"testing"
	"unicode/utf8"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"

	space "github.com/space-platform/space"
)

// ReadReport reads a report of such parts and holds that what comes of it is fit for the database.
func ReadReport(t *testing.T, node, state, text string, epoch uint64) {
	m := &controlv1.SynchronizeRequest{
		Node: node, Facts: &controlv1.NodeFacts{Driver: text, Acceleration: text, Version: text},
		Executions: []*controlv1.ExecutionReport{{State: state, Error: &routev1.Error{Code: text, Message: text}, Route: &routev1.Route{
			Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: epoch,
			Placement: &routev1.Placement{Kind: routev1.PlacementKind_PLACEMENT_KIND_NODE, Node: node},
		}}},
		Templates: []*controlv1.TemplateReport{{
			Template: space.NewID(space.PrefixTemplate), State: state, Progress: text, Digest: text, FailedStep: int32(epoch),
			Log:      []*controlv1.LogLine{{Number: 1, Text: text}, {Number: epoch, Text: text}},
			Defaults: &controlv1.Defaults{Env: map[string]string{text: text}, User: text, Workdir: text},
		}},
	}
	r, err := readReport(m)
	if err != nil {
		return
	}
	tpl := r.Templates[0]
	texts := []string{r.Facts.Driver, tpl.Status.Progress, tpl.Defaults.User, tpl.Defaults.Workdir, tpl.Log[0].Text, tpl.Log[1].Text}
	for name, value := range tpl.Defaults.Env {
		if s := name + value; !utf8.ValidString(s) || strings.ContainsRune(s, 0) || strings.Contains(name, "=") {
			t.Errorf("the variable %q came of %q", s, text)
		}
	}
	if e := r.Executions[0].Error; e != nil {
		texts = append(texts, e.Message, string(e.Code))
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > maxText {
			t.Errorf("%q came of %q", s, text)
		}
	}
}

// Figures is what is kept of figures.
type Figures struct{ f figures }

// NewFigures keeps none yet.
func NewFigures() *Figures { return &Figures{} }

// Take keeps what a report brings.
func (f *Figures) Take(r Report) { f.f.take(r) }

// Len is of how many executions there are figures.
func (f *Figures) Len() int { return len(f.f.last) }

// OrderGap is how far answers with orders are apart for a node at work.
const OrderGap = orderGap
