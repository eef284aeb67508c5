package space

// State is the state of a sandbox as the API shows it.
type State string

// The states of a sandbox.
const (
	StateCreating   State = "creating"
	StateRunning    State = "running"
	StatePausing    State = "pausing"
	StatePaused     State = "paused" // memory stays in RAM, not durable
	StateResuming   State = "resuming"
	StateSuspending State = "suspending"
	StateSuspended  State = "suspended" // memory, device state and disk are durable; the node is free of it
	StateRestoring  State = "restoring"
	StateStopping   State = "stopping"
	StateStopped    State = "stopped" // disk only
	StateStarting   State = "starting"
	StateDeleting   State = "deleting"
	StateDeleted    State = "deleted"
	StateFailed     State = "failed" // never came to run
	StateLost       State = "lost"   // the execution is gone and couldn't be saved
)

// transitions is the one table of legal moves. Code asks it through CanBecome; docs/states.md draws it and a test compares the two.
var transitions = map[State][]State{
	StateCreating:   {StateRunning, StateFailed, StateLost, StateDeleting},
	StateRunning:    {StatePausing, StateSuspending, StateStopping, StateRestoring, StateLost, StateDeleting},
	StatePausing:    {StatePaused, StateRunning, StateLost, StateDeleting},
	StatePaused:     {StateResuming, StateSuspending, StateStopping, StateRestoring, StateLost, StateDeleting},
	StateResuming:   {StateRunning, StatePaused, StateLost, StateDeleting},
	StateSuspending: {StateSuspended, StateRunning, StatePaused, StateLost, StateDeleting},
	StateSuspended:  {StateRestoring, StateLost, StateDeleting},
	StateRestoring:  {StateRunning, StatePaused, StateSuspended, StateStopped, StateLost, StateDeleting}, // if it can't be done: what it was
	StateStopping:   {StateStopped, StateLost, StateDeleting},
	StateStopped:    {StateStarting, StateRestoring, StateLost, StateDeleting},
	StateStarting:   {StateRunning, StateStopped, StateLost, StateDeleting},
	StateFailed:     {StateDeleting},
	StateLost:       {StateStarting, StateRestoring, StateDeleting},
	StateDeleting:   {StateDeleted},
	StateDeleted:    nil,
}

// States returns every state in the order of the vocabulary.
func States() []State {
	return []State{
		StateCreating, StateRunning, StatePausing, StatePaused, StateResuming, StateSuspending, StateSuspended, StateRestoring,
		StateStopping, StateStopped, StateStarting, StateDeleting, StateDeleted, StateFailed, StateLost,
	}
}

// CanBecome reports whether a sandbox may move from s to next.
func (s State) CanBecome(next State) bool {
	for _, t := range transitions[s] {
		if t == next {
			return true
		}
	}
	return false
}

// Next returns the states that may follow s.
func (s State) Next() []State { return append([]State(nil), transitions[s]...) }

// Ended reports whether s has no way out.
func (s State) Ended() bool { return s == StateDeleted }

// Known reports whether s is a word of the vocabulary.
func (s State) Known() bool {
	_, ok := transitions[s]
	return ok
}

// ExecutionState is what a node observes of one execution. Its only writer is the node that runs it.
type ExecutionState string

// The states of an execution.
const (
	ExecutionPending   ExecutionState = "pending"   // ordered, not seen on the node yet
	ExecutionRunning   ExecutionState = "running"   // the guest has acknowledged clock and seed
	ExecutionFailed    ExecutionState = "failed"    // never came to run; its error says why
	ExecutionPaused    ExecutionState = "paused"    // its machine stands still, its memory stays
	ExecutionSuspended ExecutionState = "suspended" // its machine has ended; memory, devices and disk are in a snapshot
	ExecutionStopped   ExecutionState = "stopped"   // its machine has ended, its disk is kept
	ExecutionLost      ExecutionState = "lost"      // ran, and is gone without having been told to go; its disk may have survived
	ExecutionGone      ExecutionState = "gone"      // removed on order, nothing of it is left on the node
)

// ExecutionStates returns every state of an execution.
func ExecutionStates() []ExecutionState {
	return []ExecutionState{
		ExecutionPending, ExecutionRunning, ExecutionPaused, ExecutionFailed, ExecutionSuspended, ExecutionStopped, ExecutionLost, ExecutionGone,
	}
}
