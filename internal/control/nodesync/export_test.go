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
		Templates: []*controlv1.TemplateReport{{Template: space.NewID(space.PrefixTemplate), State: state, Progress: text, Digest: text}},
	}
	r, err := readReport(m)
	if err != nil {
		return
	}
	texts := []string{r.Facts.Driver, r.Templates[0].Status.Progress}
	if e := r.Executions[0].Error; e != nil {
		texts = append(texts, e.Message, string(e.Code))
	}
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || len(s) > maxText {
			t.Errorf("%q came of %q", s, text)
		}
	}
}
