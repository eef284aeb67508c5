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
	Snapshots  []record.SnapshotSeen
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

	HeldBy   string               // snp_…, of a suspended one
	Sessions []record.SessionCopy // of one that was loaded from a snapshot
	Refusal  *space.Error         // why the newest pause or resume couldn't be done
	Refused  string               // op_…, that it was ordered for
	Active   time.Time            // when something last passed between clients and it; zero: nothing that is known
}

// TemplateReport is one template on a node, with lines of its log that weren't acknowledged yet.
type TemplateReport struct {
	record.TemplateSeen
	Log []record.LogLine // their numbers grow
}

// Order is one thing that a node should do. Doing it twice is the same as once. Orders are compared with ==.
type Order struct {
	Kind      OrderKind
	Route     space.Route     // of an execution
	Template  string          // tpl_…, of a template or of an execution to be
	Shape     record.Shape    // of an execution
	Grace     time.Duration   // of an execution to be stopped
	Upload    string          // upl_…
	DiskOf    string          // exe_…, of an execution to be: from whose disk it boots
	Snapshot  string          // snp_…, that is to be made or to go, or of an execution to be: from which it's loaded
	Digest    string          // of that one's manifest
	Cold      bool            // it boots from the snapshot's disk
	Disk      bool            // of a snapshot to be: it has no memory
	Operation string          // op_…, of a pause or a resume
	Cause     telemetry.Cause // what asked for it, if that is known
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
	PauseExecution
	ResumeExecution
	SuspendExecution
	TakeSnapshot
	RemoveSnapshot
)

// Answer is what a node is told.
type Answer struct {
	Orders              []Order
	Builds              map[string]record.BuildOrder // what the templates that are to be built are made of
	LogsReceived        map[string]int64             // template → number of its log's newest line that was received
	SessionEndsReceived []string                     // sessions whose ends were
}
