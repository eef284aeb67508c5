package nodesync

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/telemetry"
)

// Report is all that a node has.
type Report struct {
	Complete   bool // false: what is absent means nothing
	Executions []ExecutionReport
	Templates  []TemplateReport
	Uploads    []record.UploadSeen
	Sessions   []record.SessionEnd // that the node doesn't know to be recorded
	Facts      record.Facts

	told []string // the sessions whose ends it brings, to be acknowledged
}

// ExecutionReport is one execution on a node. One that is gone is absent.
type ExecutionReport struct {
	Route   space.Route
	State   space.ExecutionState
	Error   *space.Error // with failed and lost
	Since   time.Time
	Figures *record.Figures // the newest; nil: none, or not now
}

// TemplateReport is one template on a node, with lines of its log that weren't acknowledged yet.
type TemplateReport struct {
	record.TemplateSeen
	Log []record.LogLine // their numbers grow
}

// Order is one thing that a node should do. Doing it twice is the same as once. Orders are compared with ==.
type Order struct {
	Kind     OrderKind
	Route    space.Route     // of an execution
	Template string          // tpl_…, of a template or of an execution to be
	Shape    record.Shape    // of an execution
	Grace    time.Duration   // of an execution to be stopped
	Upload   string          // upl_…
	DiskOf   string          // exe_…, of an execution to be: from whose disk it boots
	Cause    telemetry.Cause // what asked for it, if that is known
}

// OrderKind is what an order says.
type OrderKind int

// The kinds of order.
const (
	EnsureExecution OrderKind = iota + 1
	RemoveExecution
	EnsureTemplate
	RemoveTemplate
	StopExecution
	RemoveUpload
)

// Answer is what a node is told.
type Answer struct {
	Orders              []Order
	Builds              map[string]record.BuildOrder // what the templates that are to be built are made of
	LogsReceived        map[string]int64             // template → number of its log's newest line that was received
	SessionEndsReceived []string                     // sessions whose ends were
}
