package record

import (
	"time"

	space "github.com/space-platform/space"
)

// Facts is what a node says of itself.
type Facts struct {
	Driver       string
	Acceleration string // kvm, tcg or none
	CPUs         uint32
	MemoryBytes  uint64
	Version      string
}

// TenantBoundary reports whether the node's driver may separate tenants; software emulation may not.
func (f Facts) TenantBoundary() bool { return f.Acceleration == "kvm" }

// Node is a node that has synchronized at least once.
type Node struct {
	Name           string
	Facts          Facts
	SynchronizedAt time.Time
	Connected      bool
}

// WantedExecution is an execution that a node should have, or should no longer have, and what was recorded of it.
type WantedExecution struct {
	Route    space.Route
	Template string // tpl_…
	Shape    Shape
	Wanted   bool                 // false: it should go
	Recorded space.ExecutionState // the newest observation that was written
}

// Wanted is all that a node should have.
type Wanted struct {
	Executions []WantedExecution
	Templates  []WantedTemplate
}

// ExecutionSeen is something new about an execution.
type ExecutionSeen struct {
	Route space.Route
	State space.ExecutionState
	Error *space.Error // with failed and lost
	Since time.Time
}

// Seen is what one report brought that wasn't recorded.
type Seen struct {
	Node       string
	Facts      *Facts // nil: neither new nor due
	Executions []ExecutionSeen
	Templates  []TemplateSeen
	Logs       []LogSeen
}

// Empty reports whether there is nothing to write.
func (s Seen) Empty() bool {
	return s.Facts == nil && len(s.Executions) == 0 && len(s.Templates) == 0 && len(s.Logs) == 0
}
