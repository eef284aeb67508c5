package nodesync_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newRoute() space.Route {
	return space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
		Placement: space.Placement{Kind: space.PlacementNode, Node: "n"}}
}

func TestDecideExecutions(t *testing.T) {
	const none = space.ExecutionState("")
	const ensure, remove, stop = nodesync.EnsureExecution, nodesync.RemoveExecution, nodesync.StopExecution
	for _, x := range []struct {
		name       string
		want       record.Want
		recorded   space.ExecutionState
		reported   space.ExecutionState // none: absent
		incomplete bool
		doubted    bool
		order      nodesync.OrderKind // 0: none
		seen       space.ExecutionState
		doubt      bool
	}{
		{name: "new", want: "running", recorded: "pending", reported: none, order: ensure},
		{name: "new, incomplete report", want: "running", recorded: "pending", reported: none, incomplete: true},
		{name: "the node is at work", want: "running", recorded: "pending", reported: "pending", order: ensure},
		{name: "comes to run", want: "running", recorded: "pending", reported: "running", seen: "running"},
		{name: "fails", want: "running", recorded: "pending", reported: "failed", seen: "failed"},
		{name: "was lost before it was seen", want: "running", recorded: "pending", reported: "lost", seen: "lost"},
		{name: "runs", want: "running", recorded: "running", reported: "running"},
		{name: "found again by a restarted host", want: "running", recorded: "running", reported: "pending", order: ensure},
		{name: "is lost", want: "running", recorded: "running", reported: "lost", seen: "lost"},
		{name: "ran, so it can't fail", want: "running", recorded: "running", reported: "failed", seen: "lost"},
		{name: "vanishes", want: "running", recorded: "running", reported: none, doubt: true},
		{name: "vanished", want: "running", recorded: "running", reported: none, doubted: true, seen: "lost"},
		{name: "absent from an incomplete report", want: "running", recorded: "running", reported: none, incomplete: true, doubted: true},
		{name: "stays lost", want: "running", recorded: "lost", reported: "lost"},
		{name: "stays lost without the node", want: "running", recorded: "lost", reported: none},
		{name: "comes back after its loss was told", want: "running", recorded: "lost", reported: "running", order: stop},
		{name: "comes back while it's being found", want: "running", recorded: "lost", reported: "pending", order: stop},
		{name: "stops by itself", want: "running", recorded: "running", reported: "stopped", seen: "lost"},
		{name: "stays stopped", want: "running", recorded: "stopped", reported: "stopped"},
		{name: "comes back after it stopped", want: "running", recorded: "stopped", reported: "running", order: stop},
		{name: "is to stop", want: "stopped", recorded: "running", reported: "running", order: stop},
		{name: "is to stop while it's being found", want: "stopped", recorded: "running", reported: "pending", order: stop},
		{name: "is to stop before it was seen", want: "stopped", recorded: "pending", reported: "pending", order: stop},
		{name: "stops", want: "stopped", recorded: "running", reported: "stopped", seen: "stopped"},
		{name: "is stopped", want: "stopped", recorded: "stopped", reported: "stopped"},
		{name: "dies over its stop", want: "stopped", recorded: "running", reported: "lost", seen: "lost"},
		{name: "fails over its stop", want: "stopped", recorded: "running", reported: "failed", seen: "lost"},
		{name: "vanishes over its stop", want: "stopped", recorded: "running", reported: none, doubt: true},
		{name: "runs though it was stopped", want: "stopped", recorded: "stopped", reported: "running", order: stop},
		{name: "its disk vanishes", want: "stopped", recorded: "stopped", reported: none, doubt: true},
		{name: "its disk vanished", want: "stopped", recorded: "stopped", reported: none, doubted: true, seen: "lost"},
		{name: "its disk is said to be gone", want: "stopped", recorded: "stopped", reported: "lost", seen: "lost"},
		{name: "stopped, incomplete report", want: "stopped", recorded: "stopped", reported: none, incomplete: true, doubted: true},
		{name: "lost and to be stopped", want: "stopped", recorded: "lost", reported: "lost"},
		{name: "its disk is needed", want: "disk", recorded: "stopped", reported: "stopped"},
		{name: "the disk of a lost one is needed", want: "disk", recorded: "lost", reported: "lost"},
		{name: "runs while its disk is needed", want: "disk", recorded: "lost", reported: "running", order: stop},
		{name: "its disk was needed and is gone", want: "disk", recorded: "stopped", reported: none, doubted: true},
		{name: "stopped and to go", want: "gone", recorded: "stopped", reported: "stopped", order: remove},
		{name: "stopped and gone", want: "gone", recorded: "stopped", reported: none, doubted: true, seen: "gone"},
		{name: "nobody knows what is wanted", recorded: "running", reported: "running"},
		{name: "comes back after it failed", want: "running", recorded: "failed", reported: "pending", order: remove},
		{name: "stays failed", want: "running", recorded: "failed", reported: "failed"},
		{name: "is to go", want: "gone", recorded: "running", reported: "running", order: remove},
		{name: "is to go before it ran", want: "gone", recorded: "pending", reported: "pending", order: remove},
		{name: "lost and to go", want: "gone", recorded: "lost", reported: "lost", order: remove},
		{name: "going", want: "gone", recorded: "running", reported: none, doubt: true},
		{name: "gone", want: "gone", recorded: "running", reported: none, doubted: true, seen: "gone"},
		{name: "never came", want: "gone", recorded: "pending", reported: none, doubted: true, seen: "gone"},
		{name: "going, incomplete report", want: "gone", recorded: "running", reported: none, incomplete: true, doubted: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			route := newRoute()
			wanted := record.Wanted{Executions: []record.WantedExecution{{Route: route, Template: "tpl_x", Want: x.want, Recorded: x.recorded}}}
			report := nodesync.Report{Complete: !x.incomplete}
			if x.reported != none {
				report.Executions = []nodesync.ExecutionReport{{Route: route, State: x.reported, Since: now}}
			}
			p := nodesync.Decide(wanted, report, map[string]bool{route.Execution: x.doubted}, now)
			var got struct {
				order nodesync.OrderKind
				seen  space.ExecutionState
			}
			if len(p.Orders) > 0 {
				got.order = p.Orders[0].Kind
			}
			if len(p.Executions) > 0 {
				got.seen = p.Executions[0].State
				if e := p.Executions[0]; (e.State == "lost" || e.State == "failed") != (e.Error != nil) {
					t.Errorf("%s with error %v", e.State, e.Error)
				}
			}
			if got.order != x.order || got.seen != x.seen || p.Doubts[route.Execution] != x.doubt || len(p.Orders)+len(p.Executions) > 1 {
				t.Errorf("got %+v", p)
			}
		})
	}
}

// TestDecideComparesWholeRoutes reports the wanted execution with one field of its route changed at a time: that one goes, and the
// wanted one is still missing.
func TestDecideComparesWholeRoutes(t *testing.T) {
	for name, change := range map[string]func(*space.Route){
		"sandbox":   func(r *space.Route) { r.Sandbox = space.NewID(space.PrefixSandbox) },
		"execution": func(r *space.Route) { r.Execution = space.NewID(space.PrefixExecution) },
		"epoch":     func(r *space.Route) { r.Epoch++ },
		"node":      func(r *space.Route) { r.Placement.Node = "other" },
		"pod":       func(r *space.Route) { r.Placement = space.Placement{Kind: space.PlacementPod, Node: "n", PodUID: "u"} },
	} {
		t.Run(name, func(t *testing.T) {
			route := newRoute()
			other := route
			change(&other)
			wanted := record.Wanted{Executions: []record.WantedExecution{{Route: route, Template: "tpl_x", Want: record.WantRunning, Recorded: space.ExecutionPending}}}
			report := nodesync.Report{Complete: true, Executions: []nodesync.ExecutionReport{{Route: other, State: space.ExecutionRunning}}}
			p := nodesync.Decide(wanted, report, nil, now)
			want := []nodesync.Order{{Kind: nodesync.EnsureExecution, Route: route, Template: "tpl_x"}, {Kind: nodesync.RemoveExecution, Route: other}}
			if diff := cmp.Diff(want, p.Orders); diff != "" || len(p.Executions) > 0 {
				t.Errorf("%s, seen %v", diff, p.Executions)
			}
		})
	}
}

func TestDecideTemplates(t *testing.T) {
	shape := record.Shape{VCPUs: 1, MemoryBytes: 1, DiskBytes: 1}
	ready := record.TemplateStatus{State: record.TemplateReady, Shape: shape, Digest: "sha256:1"}
	building := func(progress string) record.TemplateStatus {
		return record.TemplateStatus{State: record.TemplateBuilding, Progress: progress}
	}
	failed := record.TemplateStatus{State: record.TemplateFailed, Error: space.Errorf(space.CodeInternal, "no")}
	build := []nodesync.Order{{Kind: nodesync.EnsureTemplate, Template: "tpl_x"}}
	for _, x := range []struct {
		name     string
		recorded record.TemplateStatus
		reported []record.TemplateStatus // none or one
		doubted  bool
		orders   []nodesync.Order
		seen     []record.TemplateStatus
		doubt    bool
	}{
		{name: "new", orders: build},
		{name: "begins", reported: []record.TemplateStatus{building("a")}, seen: []record.TemplateStatus{building("a")}},
		{name: "goes on", recorded: building("a"), reported: []record.TemplateStatus{building("a")}},
		{name: "says more", recorded: building("a"), reported: []record.TemplateStatus{building("b")}, seen: []record.TemplateStatus{building("b")}},
		{name: "interrupted", recorded: building("a"), orders: build},
		{name: "ready", recorded: building("a"), reported: []record.TemplateStatus{ready}, seen: []record.TemplateStatus{ready}},
		{name: "stays ready", recorded: ready, reported: []record.TemplateStatus{ready}},
		{name: "fails", recorded: building("a"), reported: []record.TemplateStatus{failed}, seen: []record.TemplateStatus{failed}},
		{name: "stays failed", recorded: failed, reported: []record.TemplateStatus{ready}},
		{name: "failed and forgotten", recorded: failed},
		{name: "vanishes", recorded: ready, doubt: true},
		{name: "vanished", recorded: ready, doubted: true, orders: build, seen: []record.TemplateStatus{building("")}},
	} {
		t.Run(x.name, func(t *testing.T) {
			wanted := record.Wanted{Templates: []record.WantedTemplate{{ID: "tpl_x", Recorded: x.recorded}}}
			report := nodesync.Report{Complete: true}
			for _, s := range x.reported {
				report.Templates = append(report.Templates, nodesync.TemplateReport{TemplateSeen: record.TemplateSeen{ID: "tpl_x", Status: s}})
			}
			p := nodesync.Decide(wanted, report, map[string]bool{"tpl_x": x.doubted}, now)
			var seen []record.TemplateStatus
			for _, s := range p.Templates {
				seen = append(seen, s.Status)
			}
			if diff := cmp.Diff(x.orders, p.Orders); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(x.seen, seen, cmpopts.EquateErrors()); diff != "" || p.Doubts["tpl_x"] != x.doubt {
				t.Errorf("%s, doubts %v", diff, p.Doubts)
			}
		})
	}
}
