package nodesync

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// Report is all that a node has.
type Report struct {
	Complete   bool // false: what is absent means nothing
	Executions []ExecutionReport
	Templates  []record.TemplateSeen
	Facts      record.Facts
}

// ExecutionReport is one execution on a node. One that is gone is absent.
type ExecutionReport struct {
	Route space.Route
	State space.ExecutionState
	Error *space.Error // with failed and lost
	Since time.Time
}

// Order is one thing that a node should do. Doing it twice is the same as once. Orders are compared with ==.
type Order struct {
	Kind     OrderKind
	Route    space.Route // of an execution
	Template string      // tpl_…, of a template or of an execution to be
	Recipe   string      // of a template
	Shape    record.Shape
}

// OrderKind is what an order says.
type OrderKind int

// The kinds of order.
const (
	EnsureExecution OrderKind = iota + 1
	RemoveExecution
	EnsureTemplate
)
