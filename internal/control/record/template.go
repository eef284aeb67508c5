package record

import (
	"time"

	space "github.com/space-platform/space"
)

// TemplateState is what a node observes of a template.
type TemplateState string

// The states of a template.
const (
	TemplateBuilding TemplateState = "building"
	TemplateReady    TemplateState = "ready"
	TemplateFailed   TemplateState = "failed" // final: the next build of the recipe is another template
)

// Template is a template that is wanted, with what its node has seen of it.
type Template struct {
	ID        string
	Project   string
	Name      string
	Recipe    string
	Node      string
	Shape     Shape // of the base snapshot once it is ready, until then the one asked for
	State     TemplateState
	Digest    string // of the base snapshot's manifest
	Progress  string
	Error     *space.Error // of a failed build
	CreatedAt time.Time
}

// NewTemplate is the intent that a build writes.
type NewTemplate struct {
	ID        string
	Operation string
	Project   string
	Name      string
	Recipe    string
	Node      string
	Shape     Shape
	Request   Request
}
