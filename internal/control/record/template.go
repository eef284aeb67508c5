package record

import (
	"fmt"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/telemetry"
)

// TemplateState is what a node observes of a template.
type TemplateState string

// The states of a template.
const (
	TemplateBuilding TemplateState = "building"
	TemplateReady    TemplateState = "ready"
	TemplateFailed   TemplateState = "failed" // final: the next build is another template
)

// Template is a template that is wanted, with what its node has seen of it. It's one version of its name.
type Template struct {
	ID         string
	Project    string
	Name       string
	Named      bool // its name means this version
	Tags       []string
	Aliases    []string
	Source     string // what it's built from, for people
	Node       string
	Shape      Shape // of the base snapshot once it is ready, until then the one asked for
	State      TemplateState
	Defaults   Defaults   // for its sessions, once it is ready
	Lifecycle  *Lifecycle // of its sandboxes that say nothing else; nil: the platform's
	Shared     bool       // all projects of its project's organisation can use it
	Digest     string     // of the base snapshot's manifest
	Progress   string
	FailedStep int          // of a failed build, from 1; 0 for the source, or AfterSteps
	Error      *space.Error // of a failed build
	Asked      string       // the id of the request that asked for the newest build
	CreatedAt  time.Time
}

// Why says why the build failed, as GET of the template does.
func (t Template) Why() string {
	if t.Error == nil {
		return "no reason is known"
	}
	return fmt.Sprintf("%s: %s", t.Error.Code, t.Error.Message)
}

// AfterSteps stands for the number of a step where a build failed after the last one: in the start command, the ready check or the snapshot.
const AfterSteps = -1

// TemplateRef is a way to name a template: by its id, by a name or alias, or by a name or alias with a tag.
type TemplateRef struct {
	ID   string
	Name string
	Tag  string
}

// String returns the reference as a user would write it.
func (r TemplateRef) String() string {
	switch {
	case r.ID != "":
		return r.ID
	case r.Tag != "":
		return r.Name + ":" + r.Tag
	default:
		return r.Name
	}
}

// NewTemplate is the intent that a build writes.
type NewTemplate struct {
	ID        string
	Operation string
	Project   string
	Name      string
	Tags      []string // to be taken when it is ready
	Node      string
	Shape     Shape
	Build     Build
	Lifecycle *Lifecycle                                        // nil: what there is of a version that is kept, else the platform's
	Auth      *RegistryAuth                                     // for the time of the build; nil: none
	Content   func(uploads map[string]string) ([32]byte, error) // the hash of what decides about its content, given the uploads' digests
	Source    string                                            // for people
	Request   Request
}

// TemplateStatus is what is known of a template on a node. It is comparable.
type TemplateStatus struct {
	State      TemplateState
	Shape      Shape // of the base snapshot, when ready
	Digest     string
	Progress   string
	FailedStep int
	Error      *space.Error // of a failed build
}

// WantedTemplate is a template that a node should have, and what was recorded of it. State is empty until something was.
type WantedTemplate struct {
	ID       string
	Recorded TemplateStatus
	Log      LogHead
	Cause    telemetry.Cause // what asked for it: that of the build that runs
}

// TemplateSeen is something that a node says of a template.
type TemplateSeen struct {
	ID       string
	Status   TemplateStatus
	Defaults Defaults // when ready
}
