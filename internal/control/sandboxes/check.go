package sandboxes

import (
	"strings"
	"time"
	"unicode/utf8"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/lifecycle"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

// The limits of a create request, as openapi.yaml states them.
const (
	maxTemplateName  = 130
	maxSnapshotName  = 64
	maxVCPUs         = 32
	maxMemoryMiB     = 1 << 18
	minDiskMiB       = 64
	maxDiskMiB       = 1 << 20
	maxMetadata      = 32
	maxMetadataName  = 64
	maxMetadataValue = 1024
)

// Create is what a client asks for.
type Create struct {
	Template  string // name or id; or:
	Snapshot  string // name or id
	VCPUs     *int   // nil: the template's
	MemoryMiB *int   // nil: the template's
	DiskMiB   *int   // nil: the template's
	Metadata  map[string]string
	Env       map[string]string // of its sessions, below their own
	Lifetime  *Lifetime         // nil: until it's deleted
	Lifecycle *lifecycle.Config // nil: the template's
}

// shape is the size of the machine that is asked for, of a template.
func (c Create) shape(t record.Shape) record.Shape {
	if c.VCPUs != nil {
		t.VCPUs = uint32(*c.VCPUs)
	}
	if c.MemoryMiB != nil {
		t.MemoryBytes = uint64(*c.MemoryMiB) * record.MiB
	}
	if c.DiskMiB != nil {
		t.DiskBytes = uint64(*c.DiskMiB) * record.MiB
	}
	return t
}

// Check refuses a request that is wrong whatever the state of the platform; the error names the field and its limit.
func (c Create) Check() error {
	switch {
	case c.Template == "" && c.Snapshot == "":
		return space.FieldErrorf("template", "is required: a template's name or id, or a snapshot's in its place")
	case c.Template != "" && c.Snapshot != "":
		return space.FieldErrorf("snapshot", "template and snapshot are both given: exactly one is allowed")
	case c.Snapshot != "" && (c.VCPUs != nil || c.MemoryMiB != nil || c.DiskMiB != nil):
		return space.FieldErrorf("snapshot", "has a size of its own: vcpus, memory_mb and disk_mb can't be given with it")
	case utf8.RuneCountInString(c.Snapshot) > maxSnapshotName:
		return space.FieldErrorf("snapshot", "has more than %d characters", maxSnapshotName)
	case utf8.RuneCountInString(c.Template) > maxTemplateName:
		return space.FieldErrorf("template", "has more than %d characters", maxTemplateName)
	}
	if err := within("vcpus", c.VCPUs, 1, maxVCPUs, ""); err != nil {
		return err
	}
	if err := within("memory_mb", c.MemoryMiB, space.MinMemoryMiB, maxMemoryMiB, " MiB"); err != nil {
		return err
	}
	if err := within("disk_mb", c.DiskMiB, minDiskMiB, maxDiskMiB, " MiB"); err != nil {
		return err
	}
	if err := checkMetadata(c.Metadata); err != nil {
		return err
	}
	if err := program.CheckEnv("env", c.Env); err != nil {
		return err
	}
	if _, err := c.Lifecycle.Change(); err != nil {
		return err
	}
	_, err := c.Lifetime.at(time.Now())
	return err
}

func within(field string, n *int, least, most int, unit string) error {
	if n != nil && (*n < least || *n > most) {
		return space.FieldErrorf(field, "is %d%s: it must be %d to %d%s", *n, unit, least, most, unit)
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > maxMetadata {
		return space.FieldErrorf("metadata", "has %d entries: at most %d are allowed", len(m), maxMetadata)
	}
	for name, value := range m {
		field := "metadata." + space.Clip(name)
		switch {
		case name == "" || utf8.RuneCountInString(name) > maxMetadataName:
			return space.FieldErrorf("metadata", "an entry's name has %d characters: it must have 1 to %d", utf8.RuneCountInString(name), maxMetadataName)
		case utf8.RuneCountInString(value) > maxMetadataValue:
			return space.FieldErrorf(field, "has %d characters: at most %d are allowed", utf8.RuneCountInString(value), maxMetadataValue)
		case strings.ContainsRune(name, 0) || strings.ContainsRune(value, 0):
			return space.FieldErrorf(field, "contains a NUL character, which can't be kept")
		}
	}
	return nil
}

// checkTemplate decides whether a template can make the sandbox that is asked for.
func checkTemplate(c Create, t record.Template) error {
	switch t.State {
	case record.TemplateBuilding:
		return space.Errorf(space.CodeTemplateNotReady, "template %s is being built: wait for it with GET /v1/templates/%s", t.Name, t.Name)
	case record.TemplateFailed:
		return space.Errorf(space.CodeTemplateNotReady, "the build of template %s failed: build it anew with POST /v1/templates (%s)", t.Name, t.Why())
	}
	if c.shape(t.Shape).DiskBytes < t.Shape.DiskBytes {
		e := space.Errorf(space.CodeShapeUnavailable, "is %d MiB: template %s has a disk of %d MiB, and a sandbox has at least as much", *c.DiskMiB, t.Name, t.Shape.DiskMiB())
		e.Field = "disk_mb"
		return e
	}
	return nil
}
