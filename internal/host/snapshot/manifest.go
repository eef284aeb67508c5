package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
)

// The names in a snapshot's directory.
const (
	manifestName = "manifest.json"
	MemoryName   = "mem.img"
	StateName    = "state.bin"
	DiskName     = "disk.img"
	SessionsName = "sessions"
)

// maxManifest bounds a manifest, in bytes: one that can be written can be read, or a suspend would fail again and again. Of a memory it has at most maxChanged parts,
// with some 65 bytes each, and of a disk maxParts, with some 150.
const (
	maxManifest = 32 << 20
	maxChanged  = 1 << 18
)

// format is the version of the directory's layout.
const format = 1

// Kind is what a snapshot holds.
type Kind string

// The kinds.
const (
	Disk Kind = "disk" // the file system
	Full Kind = "full" // memory, device state and disk
)

// Order is what a snapshot is to be.
type Order struct {
	Snapshot string      `json:"snapshot"`
	Kind     Kind        `json:"kind"`
	Route    space.Route `json:"route"` // of the execution that it's of
	Template string      `json:"template"`
	Size     rootfs.Size `json:"size"`
}

// Machine is what the machine of a snapshot was loaded from, and what was saved of it.
type Machine struct {
	Parent         string        `json:"parent,omitempty"` // the snapshot that it was loaded from; "": a template's, or none
	ParentDigest   string        `json:"parent_digest,omitempty"`
	TemplateDigest string        `json:"template_digest,omitempty"` // of the template's snapshot that it comes from, through whatever others
	Kernel         string        `json:"kernel"`                    // digest of the kernel and initramfs that it booted
	At             time.Time     `json:"at"`                        // when it stood still
	Pause          time.Duration `json:"pause_nanos"`               // for how long; 0 of one that didn't go on
	VMM            *vmm.Manifest `json:"vmm,omitempty"`             // of a full one
	Whole          bool          `json:"whole_memory,omitempty"`    // the memory is all its own: the machine was booted
	Sessions       int           `json:"sessions,omitempty"`        // how many are kept
}

// ofTemplate is the machine as if it had been loaded from its template's snapshot.
func (m Machine) ofTemplate() Machine {
	m.Parent, m.ParentDigest = "", ""
	return m
}

// manifest says what a snapshot is. It's written last.
type manifest struct {
	Format int `json:"format"`
	Order
	Machine
	Changed     []seal.Part          `json:"changed,omitempty"`      // the parts of the memory that its digest is of, unless that's all of it
	DiskChanged []sum                `json:"disk_changed,omitempty"` // the parts of the disk that aren't its origin's, unless its digest is of all of it
	DiskGone    []seal.Part          `json:"disk_gone,omitempty"`    // the parts of its origin that the disk hasn't any more: they were discarded
	DiskHoles   bool                 `json:"disk_holes,omitempty"`   // that's so; in one of an older version they may also have been written over
	WholeDisk   bool                 `json:"whole_disk,omitempty"`   // its digest is of all of the disk
	Files       map[string]seal.Info `json:"files"`                  // sessions, if there are some, among them

	// The disk's origin is the template's, since the snapshot that the machine was loaded from was gone when this one was made.
	DiskOfTemplate bool `json:"disk_of_template,omitempty"`
}

// diskFrom is what the disk's origin is found by.
func (m manifest) diskFrom() Machine {
	if m.DiskOfTemplate {
		return m.Machine.ofTemplate()
	}
	return m.Machine
}

// files are the names of what a kind has.
func (k Kind) files() []string {
	if k == Full {
		return []string{DiskName, MemoryName, StateName}
	}
	return []string{DiskName}
}

// readManifest reads a snapshot's manifest, and returns its digest.
func readManifest(dir string) (m manifest, digest string, err error) {
	text, err := durable.ReadFile(filepath.Join(dir, manifestName), maxManifest)
	if err != nil {
		return m, "", err
	}
	if m, err = parse(text); err != nil {
		return m, "", fmt.Errorf("read %s: %w", manifestName, err)
	}
	return m, seal.ManifestDigest(text), nil
}

// parse reads the text of a manifest and refuses one that can't be ours.
func parse(text []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Format != format {
		return m, fmt.Errorf("format %d, want %d", m.Format, format)
	}
	if err := space.CheckID(space.PrefixSnapshot, m.Snapshot); err != nil {
		return m, err
	}
	if err := m.Route.Check(); err != nil {
		return m, err
	}
	if m.Kind != Disk && m.Kind != Full {
		return m, fmt.Errorf("kind %q", m.Kind)
	}
	if m.Kind == Full && m.VMM == nil {
		return m, errors.New("nothing is said of the machine")
	}
	for _, name := range m.Kind.files() {
		if _, ok := m.Files[name]; !ok {
			return m, fmt.Errorf("nothing is said of %s", name)
		}
	}
	return m, nil
}
