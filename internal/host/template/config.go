package template

import (
	"context"

	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
)

// Config is what a Store needs.
type Config struct {
	Dir        string // on the volume
	Volume     Volume
	Driver     vmm.Driver
	Enclosures Enclosures
	UIDs       *uids.Pool
	Kernel     kernel.Files
	Helper     rootfs.Helper
	Changed    func() // called after a report has changed; it mustn't block
}

// Enclosures makes what machines run in.
type Enclosures interface {
	Enclose(ctx context.Context, s jail.Spec) (vmm.Enclosure, error)
	Remove(ctx context.Context, s jail.Spec) error
}

// Volume is the file system that templates are on.
type Volume interface {
	// Make makes an empty subvolume.
	Make(path string) error
	// Freeze makes a subvolume read-only.
	Freeze(path string) error
	// Delete removes a subvolume with all that's in it, or a directory. None is no error.
	Delete(path string) error
}
