package record

import (
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

// Facts is what a node says of itself.
type Facts struct {
	Driver       string
	Acceleration string // kvm, tcg or none
	CPUs         uint32
	MemoryBytes  uint64
	Version      string

	SandboxMemoryBytes   uint64 // that sandboxes may be promised together; 0: not said
	OverheadBytes        uint64 // that each machine is promised beside its guest's memory
	ReservedBytes        uint64 // of SandboxMemoryBytes: what template builds have at the moment, and memory that machines share
	MemoryAvailableBytes uint64 // at the moment; 0: not said, as of the next two
	DiskBytes            uint64 // of the volume with disks and snapshots
	DiskFreeBytes        uint64
	DiskPressure         DiskPressure
}

// Differ reports whether something else than what changes all the time, how much is free, available and reserved, is another than before. How full the volume is is said
// by its pressure.
func (f Facts) Differ(before Facts) bool {
	f.MemoryAvailableBytes, before.MemoryAvailableBytes = 0, 0
	f.DiskFreeBytes, before.DiskFreeBytes = 0, 0
	f.ReservedBytes, before.ReservedBytes = 0, 0
	return f != before
}

// DiskPressure is how full a node's volume is.
type DiskPressure string

// The levels of pressure.
const (
	DiskFine     DiskPressure = ""
	DiskWarning  DiskPressure = "warning"  // nine tenths
	DiskRefusing DiskPressure = "refusing" // nineteen twentieths: no machine begins; what runs, deletes and suspends go on
)

// hostShare is the part of its memory that a node keeps for its host if it doesn't say what sandboxes may be promised.
const hostShare = 8

// SandboxMemory is how many bytes of memory sandboxes may be promised together.
func (f Facts) SandboxMemory() uint64 {
	if f.SandboxMemoryBytes > 0 {
		return f.SandboxMemoryBytes
	}
	return f.MemoryBytes - f.MemoryBytes/hostShare
}

// Advice says what is the matter with a node and what to do about it; empty: nothing is.
func (f Facts) Advice() string {
	switch f.DiskPressure {
	case DiskFine:
		return ""
	case DiskWarning:
		return space.VolumeLevel(f.DiskFreeBytes, f.DiskBytes) + "; from 95 % on no sandboxes, templates and snapshots are made, and no sandboxes started or restored"
	default:
		return space.VolumeFull(f.DiskFreeBytes, f.DiskBytes).Message
	}
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

// Want is what a node should do about an execution. One that isn't known gets nothing done.
type Want string

// What can be wanted.
const (
	WantRunning   Want = "running"
	WantStopped   Want = "stopped" // its machine should end, its disk be kept
	WantPaused    Want = "paused"
	WantSuspended Want = "suspended" // its machine should end, once a snapshot holds it
	WantDisk      Want = "disk"      // it should have no machine, and keep its disk until the execution that boots from it has run
	WantKept      Want = "kept"      // it stays as it is until the execution that takes its place has run
	WantGone      Want = "gone"
)

// WantedExecution is an execution that a node should have, or should no longer have, and what was recorded of it.
type WantedExecution struct {
	Route       space.Route
	Template    string // tpl_…
	Shape       Shape
	DiskOf      string // the execution from whose disk it boots; empty: it's made from the template, or of a snapshot
	From        Loading
	SuspendInto string // snp_…, of one that should be suspended
	HeldBy      string // snp_…, of one that was
	Operation   string // op_…, that runs; empty: none
	Want        Want
	Grace       time.Duration        // of a stop
	Recorded    space.ExecutionState // the newest observation that was written
	Cause       telemetry.Cause      // what asked for it last: that of the sandbox's newest operation
}

// Loading is the snapshot that an execution is loaded from, as it's recorded; zero if it isn't loaded from one.
type Loading struct {
	Snapshot string
	State    SnapshotState
	Digest   string
	Cold     bool
	Error    *space.Error // of one that failed, or is lost
}

// Figures is what an execution takes, as its node measured it, and what its guest says of itself.
type Figures struct {
	At            time.Time
	CPUSeconds    float64 // of host CPU since the execution began
	MemoryBytes   uint64  // resident on the host
	DiskBytes     uint64  // on the host's volume beyond the template
	ReceivedBytes uint64
	SentBytes     uint64
	Guest         *GuestFigures // nil while the guest doesn't answer
}

// GuestFigures is what a guest says of itself.
type GuestFigures struct {
	MemoryTotalBytes uint64
	MemoryUsedBytes  uint64
	DiskTotalBytes   uint64
	DiskUsedBytes    uint64
	Processes        uint32
	Load             float64 // one minute's average
}

// Wanted is all that a node should have.
type Wanted struct {
	Executions []WantedExecution
	Templates  []WantedTemplate
	Uploads    []UploadSeen // as recorded
	Snapshots  []WantedSnapshot
}

// ExecutionSeen is something new about an execution.
type ExecutionSeen struct {
	Route    space.Route
	State    space.ExecutionState
	Error    *space.Error // with failed and lost
	Since    time.Time
	HeldBy   string        // snp_…, of a suspended one
	Sessions []SessionCopy // of one that comes to run: what went on in it from its snapshot
	Refused  string        // op_…, that it couldn't do for the error; the state is the one that it stays in
}

// SessionCopy is a session that goes on in an execution that was loaded from a snapshot.
type SessionCopy struct {
	Session string
	Of      string // in the snapshot; the same in the sandbox that it's of
}

// Seen is what one report brought that wasn't recorded.
type Seen struct {
	Node       string
	Facts      *Facts // nil: neither new nor due
	Executions []ExecutionSeen
	Templates  []TemplateSeen
	Logs       []LogSeen
	Sessions   []SessionEnd
	Uploads    []UploadSeen
	Snapshots  []SnapshotSeen
}

// Empty reports whether there is nothing to write.
func (s Seen) Empty() bool {
	return s.Facts == nil && len(s.Executions) == 0 && len(s.Templates) == 0 && len(s.Logs) == 0 && len(s.Sessions) == 0 && len(s.Uploads) == 0 && len(s.Snapshots) == 0
}
