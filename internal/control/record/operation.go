package record

import (
	"time"

	space "github.com/space-platform/space"
)

// OperationKind is what an operation does.
type OperationKind string

// The kinds of operation.
const (
	CreateSandbox   OperationKind = "create_sandbox"
	DeleteSandbox   OperationKind = "delete_sandbox"
	StopSandbox     OperationKind = "stop_sandbox"
	StartSandbox    OperationKind = "start_sandbox"
	PauseSandbox    OperationKind = "pause_sandbox"
	ResumeSandbox   OperationKind = "resume_sandbox"
	SuspendSandbox  OperationKind = "suspend_sandbox"
	RestoreSandbox  OperationKind = "restore_sandbox"
	ForkSandbox     OperationKind = "fork_sandbox"
	SnapshotSandbox OperationKind = "snapshot_sandbox"
	RollbackSandbox OperationKind = "rollback_sandbox"
	BuildTemplate   OperationKind = "build_template"
)

// OperationKinds returns every kind.
func OperationKinds() []OperationKind {
	return []OperationKind{
		CreateSandbox, DeleteSandbox, StopSandbox, StartSandbox, PauseSandbox, ResumeSandbox, SuspendSandbox, RestoreSandbox, ForkSandbox, SnapshotSandbox,
		RollbackSandbox, BuildTemplate,
	}
}

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
	Snapshot  string       // that it makes, or loads
	Children  []string     // sandboxes, of fork_sandbox
	Error     *space.Error // of a failed one
	Asked     string       // the id of the request that asked for it
	CreatedAt time.Time
	EndedAt   time.Time // zero while it runs
}

// Ended reports whether nothing more will happen to it.
func (o Operation) Ended() bool { return o.Status != OperationRunning }

// DeletedMeanwhile ends what was under way when an operation came that deletes the sandbox.
func DeletedMeanwhile(operation string) *space.Error {
	return space.Errorf(space.CodeConflict, "the sandbox was deleted meanwhile, by operation %s", operation)
}
