package api_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
)

// obedientNode does at once what it's ordered to, unless a test says otherwise.
type obedientNode struct {
	sync *nodesync.Node

	mu         sync.Mutex // guards what follows
	cancel     context.CancelFunc
	executions map[space.Route]nodesync.ExecutionReport
	templates  map[string]record.TemplateStatus
	start      func(space.Route) (space.ExecutionState, *space.Error) // how a machine comes up
	build      func(string) record.TemplateStatus
}

func newObedientNode(n *nodesync.Node) *obedientNode {
	return &obedientNode{
		sync: n, executions: map[space.Route]nodesync.ExecutionReport{}, templates: map[string]record.TemplateStatus{},
		start: func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil },
		build: func(string) record.TemplateStatus {
			return record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:00", Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
		},
	}
}

// run calls until ctx ends.
func (n *obedientNode) run(ctx context.Context) {
	for ctx.Err() == nil {
		call, cancel := context.WithCancel(ctx)
		orders, err := n.sync.Synchronize(call, n.report(cancel), nodesync.MaxHang)
		cancel()
		if err == nil {
			n.obey(orders)
		}
	}
}

func (n *obedientNode) report(cancel context.CancelFunc) nodesync.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cancel = cancel
	out := nodesync.Report{Complete: true, Executions: slices.Collect(maps.Values(n.executions)), Facts: record.Facts{
		Driver: "fake", Acceleration: "none", CPUs: 2, MemoryBytes: 1 << 30, Version: "test",
	}}
	for id, status := range n.templates {
		out.Templates = append(out.Templates, record.TemplateSeen{ID: id, Status: status})
	}
	return out
}

func (n *obedientNode) obey(orders []nodesync.Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range orders {
		switch o.Kind {
		case nodesync.EnsureExecution:
			state, err := n.start(o.Route)
			n.executions[o.Route] = nodesync.ExecutionReport{Route: o.Route, State: state, Error: err, Since: time.Now()}
		case nodesync.RemoveExecution:
			delete(n.executions, o.Route)
		case nodesync.EnsureTemplate:
			n.templates[o.Template] = n.build(o.Template)
		}
	}
}

// change changes what the node has or how it behaves, and makes it call anew.
func (n *obedientNode) change(do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	do()
	if n.cancel != nil {
		n.cancel()
	}
}

// end makes every machine of a sandbox end in a state.
func (n *obedientNode) end(sandbox string, state space.ExecutionState, err *space.Error) {
	n.change(func() {
		for r := range n.executions {
			if r.Sandbox == sandbox {
				n.executions[r] = nodesync.ExecutionReport{Route: r, State: state, Error: err, Since: time.Now()}
			}
		}
	})
}
