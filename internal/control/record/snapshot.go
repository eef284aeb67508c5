package record

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

// SnapshotKind is what a snapshot holds.
type SnapshotKind string

// The kinds of snapshot.
const (
	SnapshotDisk SnapshotKind = "disk" // the file system; the machine runs on
	SnapshotFull SnapshotKind = "full" // memory, device state and disk
)

// SnapshotState is what a node observes of a snapshot; empty until it said something.
type SnapshotState string

// The states of a snapshot.
const (
	SnapshotMaking SnapshotState = "making"
	SnapshotReady  SnapshotState = "ready" // durable
	SnapshotFailed SnapshotState = "failed"
	SnapshotLost   SnapshotState = "lost" // was ready, and is gone without having been told to go
	SnapshotGone   SnapshotState = "gone" // removed on order
	// SnapshotDamaged is how one is shown that is ready and has an error: it can't be loaded as it is. Its node may find that it can be again.
	SnapshotDamaged SnapshotState = "damaged"
)

// SnapshotPurpose is what a snapshot was made for.
type SnapshotPurpose string

// The purposes of a snapshot.
const (
	PurposeAsked   SnapshotPurpose = "asked"   // somebody asked for it
	PurposeSuspend SnapshotPurpose = "suspend" // it holds a suspended execution
	PurposeFork    SnapshotPurpose = "fork"    // forks are loaded from it
	PurposeRolling SnapshotPurpose = "rolling" // one of a series that is made by itself
)

// Snapshot is a moment of a sandbox that is wanted, with what its node has seen of it.
type Snapshot struct {
	ID           string
	Project      string
	Name         string      // empty: it goes with its sandbox
	Route        space.Route // of the execution that it's of
	Template     string      // tpl_…
	TemplateName string
	Kind         SnapshotKind
	Purpose      SnapshotPurpose
	Shape        Shape
	Deleted      bool // it is to go
	GivenUp      bool // it isn't of its sandbox's past, since that was rolled back to one before it
	CreatedAt    time.Time
	Status       SnapshotStatus
}

// SnapshotStatus is what is known of a snapshot on its node. It is comparable, but for the error.
type SnapshotStatus struct {
	State   SnapshotState
	Error   *space.Error  // of one that failed, or is lost; of a ready one what is wrong with it
	At      time.Time     // when the sandbox stood still for it
	Pause   time.Duration // for how long; 0 of a suspend
	Bytes   uint64        // that it counts: those that no template and no older snapshot holds
	Digest  string        // of its manifest, of one that is ready
	Parent  string        // snp_…, from which its execution was loaded
	Driver  string        // of a full one: what can load it
	Version string
	CPU     string
}

// NewSnapshot is the intent that is written of a snapshot.
type NewSnapshot struct {
	ID      string
	Route   space.Route
	Kind    SnapshotKind
	Purpose SnapshotPurpose
	Name    string
}

// SnapshotWant is what a node should do about a snapshot.
type SnapshotWant string

// What can be wanted of a snapshot.
const (
	SnapshotTaken SnapshotWant = "taken" // it should be made, unless it is there
	SnapshotHeld  SnapshotWant = "held"  // the same, by the suspend of its execution
	SnapshotAway  SnapshotWant = "away"  // it should go
)

// WantedSnapshot is a snapshot that a node should have, or should no longer have, and what was recorded of it.
type WantedSnapshot struct {
	ID        string
	Route     space.Route          // of the execution that it's of
	Execution space.ExecutionState // as recorded; gone: nothing is known of it any more
	Kind      SnapshotKind
	Want      SnapshotWant
	Recorded  SnapshotStatus
	DeletedBy string // op_…, by which its sandbox is to go while it's being made; empty: it isn't
	Cause     telemetry.Cause
}

// SnapshotSeen is something new about a snapshot.
type SnapshotSeen struct {
	ID     string
	Status SnapshotStatus
}
