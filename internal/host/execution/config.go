package execution

import (
	"context"

	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm"
)

// Config is what a Table needs.
type Config struct {
	Dir        string // where executions are kept: on the volume with the templates, so that cloning is cheap
	Sandboxes  string // where the sessions of sandboxes are kept
	Node       string // the node's name in routes
	Driver     vmm.Driver
	Paged      bool // the memory of loaded machines comes page by page, which the driver can do
	Enclosures Enclosures
	UIDs       *uids.Pool
	Templates  Templates
	Snapshots  *snapshot.Store
	Kernel     kernel.Files // what machines boot that aren't loaded from a snapshot
	Most       rootfs.Size  // that one machine may have
	Sessions   session.Limits
	Pool       PoolConfig
	Memory     func() (meminfo.Facts, error)
	Promises   *promise.Ledger                                       // of the node's memory
	Overhead   int64                                                 // bytes of it that a machine's VMM may take, beside its guest's memory
	Room       func() error                                          // says why there is no room for another disk; a *space.Error
	Keep       func(memory int64) error                              // keeps room for the suspend of a machine with so many bytes of memory (see Largest), or says why it can't; a *space.Error
	Reserve    func(memory int64) (done func())                      // gives such a suspend the room that's kept for it, if there's no other
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
	// Weigh gives the enclosure's program the share of a scarce CPU that the spec's limits say.
	Weigh(s jail.Spec) error
	// Remove ends every process of the enclosure and removes it.
	Remove(ctx context.Context, s jail.Spec) error
}

// Templates finds base snapshots.
type Templates interface {
	// SnapshotFor returns a template's snapshot of a size, or its own, whose size is another one. Its files stay as they are until give is
	// called. Errors are space.Errors.
	SnapshotFor(id string, size rootfs.Size) (s template.Snapshot, give func(), err error)
	// BuildShape says that a machine of a size had to boot: the next one would like a snapshot.
	BuildShape(id string, size rootfs.Size)
	// Start returns what runs in the template's snapshots and must be started after a boot; nil: nothing.
	Start(id string) *sessionv1.Spec
	// Loadable returns all snapshots from which machines can be loaded now.
	Loadable() []template.Loadable
	// Probe is a command that a machine loaded from the template's snapshot can try, so that the next one is quick.
	Probe(id string) *sessionv1.Spec
	// Reject says that a template's snapshot doesn't fit this node.
	Reject(id string)
}
