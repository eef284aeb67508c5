package template

import (
	"context"
	"time"

	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/host/vmm"
)

// Config is what a Store needs.
type Config struct {
	Dir        string   // on the volume
	Layers     string   // a directory on the volume, for disks that builds begin with
	Sets       string   // a directory for the working sets of snapshots, whose own directories can't be written to
	LayerBytes int64    // that those may take, shared blocks counted for each
	Blobs      string   // a directory for layers from registries
	Insecure   []string // registries that needn't speak TLS, as HOST or HOST:PORT
	Allowed    []string // registries that needn't be on the public internet, as HOST, HOST:PORT or network
	Volume     seal.Volume
	Clone      func(from, to string, uid int) error // makes a file that shares the other's content
	Room       func() error                         // says why there is no room for another template; a *space.Error
	Memory     func() (meminfo.Facts, error)        // of this machine
	Promises   *promise.Ledger                      // of its memory
	Driver     vmm.Driver
	Enclosures Enclosures
	UIDs       *uids.Pool
	Kernel     kernel.Files
	Helper     rootfs.Helper
	Uploads    Uploads
	Changed    func() // called after a report has changed; it mustn't block

	retryPause time.Duration // before the second try to make a template anew; 0: firstRetry
}

// fits tells whether machines with so much memory fit beside what runs, with some to spare.
func (c Config) fits(memory int64) bool {
	f, err := c.Memory()
	return err == nil && f.Available-f.Total/memoryShare >= memory
}

// promise gives a build's machine its memory, and what its VMM takes beside it.
func (c Config) promise(memory int64) (takeBack func(), err error) {
	return c.Promises.Build(memory + c.Driver.Capabilities().OverheadBytes)
}

// Enclosures makes what machines run in.
type Enclosures interface {
	Enclose(ctx context.Context, s jail.Spec) (vmm.Enclosure, error)
	Remove(ctx context.Context, s jail.Spec) error
}

// Uploads are what clients have uploaded for builds.
type Uploads interface {
	// Use returns an upload, which stays until done is called. Errors are space.Errors.
	Use(id string) (f upload.File, done func(), err error)
}
