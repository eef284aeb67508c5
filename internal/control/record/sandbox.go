package record

import (
	"time"

	space "github.com/space-platform/space"
)

// Desired is what a project wants of a sandbox.
type Desired string

// What can be desired.
const (
	DesiredRunning Desired = "running"
	DesiredDeleted Desired = "deleted"
)

// Sandbox is what is desired of one sandbox, with what its node has seen of its current execution.
type Sandbox struct {
	ID           string
	Project      string
	Template     string // tpl_…
	TemplateName string
	Desired      Desired
	Revision     int64 // grows with each change of what is desired
	Shape        Shape
	Metadata     map[string]string
	Execution    Execution // the current one
	CreatedAt    time.Time
	UpdatedAt    time.Time // of the newest change, desired or seen
}

// Execution is one incarnation of a sandbox's machine.
type Execution struct {
	Route    space.Route
	Observed space.ExecutionState
	Error    *space.Error // with failed and lost
}

// NewSandbox is the intent that a create writes.
type NewSandbox struct {
	Route     space.Route // sandbox, first execution and where it's placed
	Operation string
	Project   string
	Template  string // tpl_…
	Shape     Shape
	Metadata  map[string]string
	Request   Request
}

// Position is a place in the list of sandboxes, which is ordered newest first. The zero value is before the first.
type Position struct {
	CreatedAt time.Time
	ID        string
}

// SandboxFilter says which sandboxes are meant.
type SandboxFilter struct {
	Conditions []SandboxCondition // any of these
	Metadata   map[string]string  // all of these entries
}

// SandboxCondition is what a sandbox's state is made of.
type SandboxCondition struct {
	Desired  Desired
	Observed space.ExecutionState
}
