package record

import (
	"time"

	space "github.com/space-platform/space"
)

// OperationKind is what an operation does.
type OperationKind string

// The kinds of operation.
const (
	CreateSandbox OperationKind = "create_sandbox"
	DeleteSandbox OperationKind = "delete_sandbox"
	StopSandbox   OperationKind = "stop_sandbox"
	StartSandbox  OperationKind = "start_sandbox"
	BuildTemplate OperationKind = "build_template"
)

// OperationStatus is how far an operation is.
type OperationStatus string

// The statuses of an operation.
const (
	OperationRunning   OperationStatus = "running"
	OperationSucceeded OperationStatus = "succeeded"
	OperationFailed    OperationStatus = "failed"
)

// Operation is a lifecycle change, in progress or ended.
type Operation struct {
	ID        string
	Project   string
	Kind      OperationKind
	Status    OperationStatus
	Sandbox   string       // of all but build_template
	Template  string       // of build_template
	Error     *space.Error // of a failed one
	Asked     string       // the id of the request that asked for it
	CreatedAt time.Time
	EndedAt   time.Time // zero while it runs
}

// Ended reports whether nothing more will happen to it.
func (o Operation) Ended() bool { return o.Status != OperationRunning }
