package execution

import (
	"context"

	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
)

// Config is what a Table needs.
type Config struct {
	Dir        string // where executions are kept: on the volume with the templates, so that cloning is cheap
	Node       string // the node's name in routes
	Driver     vmm.Driver
	Enclosures Enclosures
	UIDs       *uids.Pool
	Templates  Templates
	Kernel     kernel.Files // what machines boot that aren't loaded from a snapshot
	Most       rootfs.Size  // that one machine may have
	Sessions   session.Limits
	Room       func() error                                          // says why there is no room for another disk; a *space.Error
	DiskUsage  func(ctx context.Context, path string) (int64, error) // how many bytes a disk takes that it shares with no other
	Clone      func(from, to string, uid int) error                  // makes a file that shares the other's content and belongs to the uid
	Changed    func()                                                // called after a report has changed; it mustn't block
}

// Enclosures makes what machines run in.
type Enclosures interface {
	// Enclose makes an enclosure that isn't there yet.
	Enclose(ctx context.Context, s jail.Spec) (vmm.Enclosure, error)
	// Find returns the enclosure that Enclose made in this or another life of the daemon. It touches nothing.
	Find(s jail.Spec) vmm.Enclosure
	// Measure reads what the enclosure's program uses.
	Measure(s jail.Spec) (jail.Usage, error)
	// Remove ends every process of the enclosure and removes it.
	Remove(ctx context.Context, s jail.Spec) error
}

// Templates finds base snapshots.
type Templates interface {
	// Borrow returns a template's base snapshot, whose files stay as they are until give is called. Errors are space.Errors.
	Borrow(id string) (s template.Snapshot, give func(), err error)
	// Reject says that a template's snapshot doesn't fit this node.
	Reject(id string)
}
