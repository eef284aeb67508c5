package templates

import (
	"fmt"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/lifecycle"
	"github.com/space-platform/space/internal/control/record"
)

// Create is what a client asks for. Exactly one source is given, from Recipe to Template; what is nil isn't given.
type Create struct {
	Name     *string
	Tags     []string
	Recipe   *string
	Debian   *record.Debian
	Image    *string
	Archive  *string // an upload
	Rootfs   *string // an upload
	Template *string // a reference

	RegistryAuth *record.RegistryAuth // for the registry of Image
	Steps        []Step
	StartCommand string
	ReadyCheck   string
	Env          map[string]string
	User         string
	Workdir      string
	VCPUs        *int
	MemoryMiB    *int
	DiskMiB      *int
	NoCache      bool
	Lifecycle    *lifecycle.Config // of its sandboxes; nil: as it is
}

// Step is one layer above the source. Exactly one of its fields is given.
type Step struct {
	Run     *string
	Copy    *record.Copy
	Env     map[string]string // nil: not given
	Workdir *string
	User    *string
}

// recipes are the built-in ways to make a template, with the shape that the template gets. The node knows how to follow them.
var recipes = map[string]record.Shape{
	"base": {VCPUs: 1, MemoryBytes: 512 * record.MiB, DiskBytes: 4096 * record.MiB},
	"mini": {VCPUs: 1, MemoryBytes: 128 * record.MiB, DiskBytes: 64 * record.MiB},
}

// otherShape is what a template gets that is made of something else: as much disk as its files need, and a half more.
var otherShape = record.Shape{VCPUs: 1, MemoryBytes: 512 * record.MiB}

// name is the template's name: a recipe has one of its own.
func (c Create) name() string {
	if c.Name == nil {
		return *c.Recipe
	}
	return *c.Name
}

// build is what the template is made of.
func (c Create) build(base *record.Template) record.Build {
	out := record.Build{
		StartCommand: c.StartCommand, ReadyCheck: c.ReadyCheck, NoCache: c.NoCache,
		Defaults: record.Defaults{Env: c.Env, User: c.User, Workdir: c.Workdir},
		Source:   record.Source{Recipe: value(c.Recipe), Debian: c.Debian, Image: value(c.Image), Archive: value(c.Archive), Rootfs: value(c.Rootfs)},
	}
	if base != nil {
		out.Source.Template = base.ID
	}
	for _, s := range c.Steps {
		out.Steps = append(out.Steps, s.step())
	}
	return out
}

func (s Step) step() record.Step {
	switch {
	case s.Run != nil:
		return record.Step{Run: *s.Run}
	case s.Copy != nil:
		return record.Step{Copy: s.Copy}
	default:
		return record.Step{Set: &record.Defaults{Env: s.Env, User: value(s.User), Workdir: value(s.Workdir)}}
	}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// shape is what is asked for above what the source has.
func (c Create) shape(base *record.Template) (record.Shape, error) {
	out := otherShape
	switch {
	case c.Recipe != nil:
		out = recipes[*c.Recipe]
	case base != nil:
		out = base.Shape
	}
	if c.VCPUs != nil {
		out.VCPUs = uint32(*c.VCPUs)
	}
	if c.MemoryMiB != nil {
		out.MemoryBytes = uint64(*c.MemoryMiB) * record.MiB
	}
	if c.DiskMiB != nil {
		out.DiskBytes = uint64(*c.DiskMiB) * record.MiB
	}
	if base != nil && out.DiskBytes < base.Shape.DiskBytes {
		return out, space.FieldErrorf("disk_mb", "is %d MiB: template %s, which this one is built on, has %d", out.DiskMiB(), base.Name, base.Shape.DiskMiB())
	}
	return out, nil
}

// lifecycle is what its sandboxes do by themselves that say nothing else; nil if nothing is said here either.
func (c Create) lifecycle() (*record.Lifecycle, error) {
	if c.Lifecycle == nil {
		return nil, nil
	}
	out, err := c.Lifecycle.Over(nil)
	return &out, err
}

// describe says in a few words what a template is built from.
func describe(b record.Build, base *record.Template) string {
	var out string
	switch s := b.Source; {
	case s.Recipe != "":
		out = "recipe " + s.Recipe
	case s.Debian != nil:
		out = "debian " + s.Debian.Suite
	case s.Image != "":
		out = "image " + s.Image
	case s.Archive != "":
		out = "archive " + s.Archive
	case s.Rootfs != "":
		out = "rootfs " + s.Rootfs
	default:
		out = "template " + base.Name + " (" + base.ID + ")"
	}
	switch n := len(b.Steps); n {
	case 0:
		return out
	case 1:
		return out + " and 1 step"
	default:
		return fmt.Sprintf("%s and %d steps", out, n)
	}
}
