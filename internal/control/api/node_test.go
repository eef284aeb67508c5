package api_test

import (
	"context"
	"crypto/sha256"
	"fmt"
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
	defaults   map[string]record.Defaults                             // of templates
	logs       map[string][]record.LogLine                            // of their builds, not yet acknowledged
	builds     map[string]record.BuildOrder                           // as they were ordered last
	removed    chan string                                            // templates
	start      func(space.Route) (space.ExecutionState, *space.Error) // how a machine comes up
	stop       func(space.Route) (space.ExecutionState, *space.Error) // how a machine ends
	build      func(string) record.TemplateStatus
	ordered    []nodesync.Order // about executions, in the order in which they came
	snapshots  map[string]record.SnapshotStatus
	take       func(nodesync.Order) record.SnapshotStatus // how a snapshot comes out
	pause      func(nodesync.Order) *space.Error          // why a pause or resume is refused; nil: it isn't
	facts      record.Facts
	sessions   map[string][]string // that are open, by snapshot: they go on in what is loaded from it
}

func newObedientNode(n *nodesync.Node) *obedientNode {
	return &obedientNode{
		sync: n, executions: map[space.Route]nodesync.ExecutionReport{}, templates: map[string]record.TemplateStatus{},
		defaults: map[string]record.Defaults{}, logs: map[string][]record.LogLine{}, builds: map[string]record.BuildOrder{},
		removed: make(chan string, 100), snapshots: map[string]record.SnapshotStatus{}, sessions: map[string][]string{},
		take: func(o nodesync.Order) record.SnapshotStatus {
			return record.SnapshotStatus{State: record.SnapshotReady, Digest: digestOf(o.Snapshot), At: time.Now(), Bytes: 5 << 20, Driver: "fake", Version: "1"}
		},
		facts: record.Facts{Driver: "fake", Acceleration: "none", CPUs: 2, MemoryBytes: 1 << 30, SandboxMemoryBytes: 4 << 30, Version: "test"},
		pause: func(nodesync.Order) *space.Error { return nil },
		start: func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil },
		stop:  func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionStopped, nil },
		build: func(string) record.TemplateStatus {
			return record.TemplateStatus{State: record.TemplateReady, Digest: "sha256:00", Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
		},
	}
}

// run calls until ctx ends.
func (n *obedientNode) run(ctx context.Context) {
	for ctx.Err() == nil {
		call, cancel := context.WithCancel(ctx)
		answer, err := n.sync.Synchronize(call, n.report(cancel), nodesync.MaxHang)
		cancel()
		if err == nil {
			n.obey(answer)
		}
	}
}

func (n *obedientNode) report(cancel context.CancelFunc) nodesync.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cancel = cancel
	out := nodesync.Report{Complete: true, Executions: slices.Collect(maps.Values(n.executions)), Facts: n.facts}
	for id, status := range n.snapshots {
		out.Snapshots = append(out.Snapshots, record.SnapshotSeen{ID: id, Status: status})
	}
	for id, status := range n.templates {
		log := n.logs[id]
		out.Templates = append(out.Templates, nodesync.TemplateReport{
			TemplateSeen: record.TemplateSeen{ID: id, Status: status, Defaults: n.defaults[id]}, Log: log[:min(len(log), 200)],
		})
	}
	return out
}

func (n *obedientNode) obey(a nodesync.Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, number := range a.LogsReceived {
		n.logs[id] = slices.DeleteFunc(n.logs[id], func(l record.LogLine) bool { return l.Number <= number })
	}
	for _, o := range a.Orders {
		if o.Route != (space.Route{}) {
			n.ordered = append(n.ordered, o)
		}
		switch o.Kind {
		case nodesync.StopExecution:
			state, err := n.stop(o.Route)
			n.executions[o.Route] = nodesync.ExecutionReport{Route: o.Route, State: state, Error: err, Since: time.Now()}
		case nodesync.EnsureExecution:
			state, err := n.start(o.Route)
			n.executions[o.Route] = nodesync.ExecutionReport{Route: o.Route, State: state, Error: err, Since: time.Now(), Sessions: n.copies(o)}
		case nodesync.PauseExecution, nodesync.ResumeExecution:
			n.stand(o)
		case nodesync.SuspendExecution:
			s := n.take(o)
			n.snapshots[o.Snapshot] = s
			if s.State == record.SnapshotReady {
				n.executions[o.Route] = nodesync.ExecutionReport{Route: o.Route, State: space.ExecutionSuspended, HeldBy: o.Snapshot, Since: time.Now()}
			}
		case nodesync.TakeSnapshot:
			if _, there := n.snapshots[o.Snapshot]; !there {
				n.snapshots[o.Snapshot] = n.take(o)
			}
		case nodesync.RemoveSnapshot:
			delete(n.snapshots, o.Snapshot)
		case nodesync.RemoveExecution:
			delete(n.executions, o.Route)
		case nodesync.EnsureTemplate:
			n.builds[o.Template] = a.Builds[o.Template]
			if _, there := n.templates[o.Template]; !there {
				n.templates[o.Template] = n.build(o.Template)
			}
		case nodesync.RemoveTemplate:
			delete(n.templates, o.Template)
			select {
			case n.removed <- o.Template:
			default: // nobody wants to know
			}
		}
	}
}

func (n *obedientNode) stand(o nodesync.Order) {
	r, there := n.executions[o.Route]
	if !there {
		return
	}
	r.Refusal, r.Refused = n.pause(o), o.Operation
	if r.Refusal == nil {
		r.State, r.Refused = map[nodesync.OrderKind]space.ExecutionState{
			nodesync.PauseExecution: space.ExecutionPaused, nodesync.ResumeExecution: space.ExecutionRunning,
		}[o.Kind], ""
	}
	n.executions[o.Route] = r
}

// copies are the sessions that go on: under their ids in the sandbox that the snapshot is of, which it is if the execution isn't its first.
func (n *obedientNode) copies(o nodesync.Order) []record.SessionCopy {
	var out []record.SessionCopy
	for _, id := range n.sessions[o.Snapshot] {
		c := record.SessionCopy{Session: id, Of: id}
		if o.Route.Epoch == 1 {
			c.Session = space.NewID(space.PrefixSession)
		}
		out = append(out, c)
	}
	return out
}

// digestOf is the digest of a snapshot's manifest.
func digestOf(snapshot string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(snapshot)))
}

// holdUp has machines not come up from now on, or do so again.
func (n *obedientNode) holdUp(hold bool) {
	n.change(func() {
		n.start = func(space.Route) (space.ExecutionState, *space.Error) {
			if hold {
				return space.ExecutionPending, nil
			}
			return space.ExecutionRunning, nil
		}
	})
}

// has reports whether a sandbox has a machine, or is about to; n.mu is held.
func (n *obedientNode) has(sandbox string) bool {
	for r := range n.executions {
		if r.Sandbox == sandbox {
			return true
		}
	}
	return false
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
