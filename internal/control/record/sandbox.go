package record

import (
	"time"

	space "github.com/space-platform/space"
)

// Desired is what a project wants of a sandbox.
type Desired string

// What can be desired.
const (
	DesiredRunning   Desired = "running"
	DesiredPaused    Desired = "paused"
	DesiredSuspended Desired = "suspended"
	DesiredStopped   Desired = "stopped"
	DesiredDeleted   Desired = "deleted"
)

// DesiredStates returns everything that can be desired.
func DesiredStates() []Desired {
	return []Desired{DesiredRunning, DesiredPaused, DesiredSuspended, DesiredStopped, DesiredDeleted}
}

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
	Lifetime     *Lifetime // nil: it lives until it's deleted
	Execution    Execution // the current one
	SuspendInto  string    // snp_…, of the newest suspend
	Parent       Parent
	Recovery     *Recovery // nil: its past has no snapshot
	Lifecycle    Lifecycle
	ActiveAt     time.Time // when something was last done with it, within a minute
	Deleted      bool      // all its executions are gone
	CreatedAt    time.Time
	UpdatedAt    time.Time // of the newest change, desired or seen
}

// Parent is what a sandbox was made of instead of a template alone; zero if it wasn't.
type Parent struct {
	Sandbox  string
	Snapshot string
}

// Recovery is the newest durable moment of a sandbox: the newest snapshot of its past that is ready. What came after the snapshot of a rollback isn't of it.
type Recovery struct {
	Snapshot string
	Kind     SnapshotKind
	At       time.Time // when the sandbox stood still for it
}

// Expiry is what happens to a sandbox at its deadline.
type Expiry string

// What can happen at a deadline.
const (
	ExpiryDelete  Expiry = "delete"
	ExpiryStop    Expiry = "stop"
	ExpirySuspend Expiry = "suspend"
)

// Lifetime is how long a sandbox lives, by the control plane's clock, and what happens then. Once its action is taken it's over.
type Lifetime struct {
	Deadline time.Time
	OnExpiry Expiry
}

// Execution is one incarnation of a sandbox's machine.
type Execution struct {
	Route    space.Route
	Observed space.ExecutionState
	Error    *space.Error         // with failed and lost
	DiskOf   string               // the execution from whose disk it boots; empty: it's made from the template, or of a snapshot
	Disk     space.ExecutionState // of that execution
	Snapshot string               // snp_…, that it's loaded from; empty: it's made from the template, or a disk
	Cold     bool                 // it boots from the snapshot's disk, though that may have memory
	Replaces string               // the execution that stays as it is until this one has run, when this one is loaded from a snapshot
	HeldBy   string               // snp_…, that holds a suspended one
}

// NewSandbox is the intent that a create writes.
type NewSandbox struct {
	Route     space.Route // sandbox, first execution and where it's placed
	Operation string
	Project   string
	Template  string // tpl_…
	Shape     Shape
	Metadata  map[string]string
	Env       map[string]string
	Lifetime  *Lifetime
	Lifecycle Lifecycle
	Snapshot  string // snp_…, that it's loaded from; empty: it's made from the template
	Parent    string // sbx_…, of that snapshot
	PartOf    string // op_…, of the fork that makes it; empty: none
	Request   Request
}

// Update is what changes of a sandbox without its machine's doing; nil leaves it as it is.
type Update struct {
	Metadata map[string]string
	Env      map[string]string
	Lifetime *Lifetime
	Forever  bool                      // the lifetime is removed
	Change   func(Lifecycle) Lifecycle // nil: it stays
}

// Change is what a verb writes of a sandbox.
type Change struct {
	// Same is the operation that is under way already; nothing else is written.
	Same string
	// Kind is the operation that begins; empty: none does.
	Kind OperationKind
	// Done says that there's nothing to do: the answer is the newest operation of the kind that has succeeded, or one that ends as it begins.
	Done bool
	// Operation is the id of the operation that begins.
	Operation string
	Desired   Desired // empty: what it was
	// Execution is the new current one; its route is empty if the current one stays.
	Execution Execution
	// Snapshot is to be made.
	Snapshot *NewSnapshot
	// Children are sandboxes that are loaded from the snapshot.
	Children []NewSandbox
	// Loads is a snapshot that the operation needs, and doesn't make.
	Loads string
	// Supersede ends the operation that runs, with this error.
	Supersede *space.Error
	// Grace is what a stop gives processes between SIGTERM and SIGKILL.
	Grace time.Duration
	// DropLifetime ends the lifetime.
	DropLifetime bool
	// Unasked says that nobody asked for it: it's no activity.
	Unasked bool
}

// Changed is what came of a change.
type Changed struct {
	Operation string   // to answer with
	Node      string   // that must act
	Ended     []string // operations that were superseded
}

// Situation is what a verb decides by. It doesn't change until the verb's intent is written.
type Situation struct {
	Sandbox Sandbox
	Epoch   uint64     // the greatest of its executions
	Running *Operation // with id and kind; nil if none runs
	// Room is what the sandbox's node has, and an error if the project's quota has no room for as much more. Nobody else places a machine meanwhile.
	Room func(more Usage) (Room, error)
	// Rolled is when it took snapshots of itself last.
	Rolled func() (Rolled, error)
	// Snapshot finds one of the project by id or name, and an error if it has none.
	Snapshot func(ref string) (Snapshot, error)
}

// Room is what a node has, and what the machines take that run there or are about to.
type Room struct {
	Facts Facts // zero if the node has never called
	Load  Load
}

// Load is what machines take together.
type Load struct {
	Machines    uint64
	VCPUs       uint64
	MemoryBytes uint64 // of their guests
}

// With is the room that is left beside another machine.
func (r Room) With(s Shape) Room {
	r.Load.Machines, r.Load.VCPUs, r.Load.MemoryBytes = r.Load.Machines+1, r.Load.VCPUs+uint64(s.VCPUs), r.Load.MemoryBytes+s.MemoryBytes
	return r
}

// Expiring is a sandbox with a deadline.
type Expiring struct {
	ID       string
	Project  string
	Lifetime Lifetime
}

// Position is a place in the list of sandboxes, which is ordered newest first. The zero value is before the first.
type Position struct {
	CreatedAt time.Time
	ID        string
}

// SandboxFilter says which sandboxes are meant.
type SandboxFilter struct {
	AnyState   bool               // but deleted; else
	Conditions []SandboxCondition // any of these
	Metadata   map[string]string  // all of these entries
}

// SandboxCondition is what a sandbox's state is made of.
type SandboxCondition struct {
	Desired  Desired
	Observed space.ExecutionState
	Disk     space.ExecutionState // empty: its execution isn't made from a disk
	Loaded   bool                 // its execution takes the place of another one, and is loaded from a snapshot
	Deleted  bool
}
