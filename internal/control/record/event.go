package record

import "time"

// EventType says what happened.
type EventType string

// The types of event.
const (
	EventSandboxCreated   EventType = "sandbox.created"
	EventSandboxRunning   EventType = "sandbox.running" // for the first time
	EventSandboxFailed    EventType = "sandbox.failed"
	EventSandboxLost      EventType = "sandbox.lost"
	EventSandboxStopped   EventType = "sandbox.stopped"
	EventSandboxStarted   EventType = "sandbox.started" // runs again, as another execution
	EventSandboxPaused    EventType = "sandbox.paused"
	EventSandboxResumed   EventType = "sandbox.resumed"
	EventSandboxSuspended EventType = "sandbox.suspended"
	EventSandboxRestored  EventType = "sandbox.restored" // runs again, as it was in a snapshot
	EventSandboxUpdated   EventType = "sandbox.updated"
	EventSandboxDeleted   EventType = "sandbox.deleted" // it is gone
	EventSnapshotReady    EventType = "snapshot.ready"
	EventSnapshotFailed   EventType = "snapshot.failed"
	EventSnapshotLost     EventType = "snapshot.lost"
	EventSnapshotDeleted  EventType = "snapshot.deleted" // it is gone
	EventTemplateCreated  EventType = "template.created"
	EventTemplateReady    EventType = "template.ready"
	EventTemplateFailed   EventType = "template.failed"
	EventTemplateDeleted  EventType = "template.deleted"
	EventKeyCreated       EventType = "key.created"
	EventKeyRevoked       EventType = "key.revoked"
)

// EventTypes returns every type of event.
func EventTypes() []EventType {
	return []EventType{
		EventSandboxCreated, EventSandboxRunning, EventSandboxFailed, EventSandboxLost, EventSandboxStopped, EventSandboxStarted,
		EventSandboxPaused, EventSandboxResumed, EventSandboxSuspended, EventSandboxRestored, EventSandboxUpdated, EventSandboxDeleted,
		EventSnapshotReady, EventSnapshotFailed, EventSnapshotLost, EventSnapshotDeleted,
		EventTemplateCreated, EventTemplateReady, EventTemplateFailed, EventTemplateDeleted, EventKeyCreated, EventKeyRevoked,
	}
}

// Event is something that happened in a project. What it isn't about is empty.
type Event struct {
	Number    int64 // grows; a greater one is never seen before a lesser one
	Type      EventType
	At        time.Time
	Sandbox   string
	Template  string
	Operation string
	Key       string
	Data      map[string]any
}

// EventFilter says which events of a project are meant.
type EventFilter struct {
	After   int64  // only greater numbers
	Sandbox string // empty: of all, and what isn't about a sandbox
	Limit   int
}

// EventBounds is where a reader may begin.
type EventBounds struct {
	Newest int64 // the greatest number that was given
	Pruned int64 // the greatest number of the project's that is no longer kept; 0: all are
}
