package record

import "time"

// Lifecycle is what a sandbox does by itself. A template's is kept as JSON.
type Lifecycle struct {
	AutoWake bool     `json:"auto_wake"`         // a call that needs it to run wakes it
	Idle     *Idle    `json:"idle,omitempty"`    // nil: idleness has no end
	Rolling  *Rolling `json:"rolling,omitempty"` // nil: it takes no snapshots of itself
}

// IdleAction is what happens to a sandbox with which nothing was done for long.
type IdleAction string

// What can happen.
const (
	IdleSuspend IdleAction = "suspend"
	IdleDelete  IdleAction = "delete"
)

// Idle is how idleness ends.
type Idle struct {
	After  time.Duration `json:"after"`
	Action IdleAction    `json:"action"`
	Egress bool          `json:"egress,omitempty"` // bytes that it sends are activity
}

// ActiveWithin is by how much a sandbox may have been active later than is recorded: what comes as soon after what is recorded isn't. So idleness ends as much later,
// and never while something was done with the sandbox for less time than it says.
const ActiveWithin = 30 * time.Second

// IsOver reports whether a sandbox that was last recorded to be active at one time has been idle for long enough at another.
func (i Idle) IsOver(activeAt, now time.Time) bool {
	return !activeAt.Add(i.After + ActiveWithin).After(now)
}

// Rolling is how a sandbox takes snapshots of itself while it runs. It's kept as JSON.
type Rolling struct {
	DiskEvery   time.Duration `json:"disk_every,omitempty"` // 0: none
	FullEvery   time.Duration `json:"full_every,omitempty"` // 0: none
	Keep        []Tier        `json:"keep"`
	BudgetBytes uint64        `json:"budget_bytes,omitempty"` // 0: unlimited; the newest one stays however large it is
}

// Tier keeps of the snapshots of the last time one for each interval, the newest of it; all if that is 0.
type Tier struct {
	Every time.Duration `json:"every"`
	For   time.Duration `json:"for"`
}

// Rolled is from when on the next snapshots are counted that a sandbox takes of itself: the last one's moment, whatever came of it, or the sandbox's creation.
type Rolled struct {
	FullAt time.Time
	DiskAt time.Time // a full one has the disk, too
	Making bool      // the last one is still being made
}

// SnapshotOwner is a sandbox that has snapshots, or takes some of itself.
type SnapshotOwner struct {
	Sandbox string
	Project string
	Deleted bool     // it's gone, or is to go
	Rolling *Rolling // nil: it takes none
}

// Idling is a sandbox with which nothing was done for as long as it says.
type Idling struct {
	ID       string
	Project  string
	ActiveAt time.Time
	Idle     Idle
}
