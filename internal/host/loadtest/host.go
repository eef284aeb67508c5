// Package loadtest is a spaced-host whose machines cost nothing, for load tests of everything above it: the real executions, sessions and services
// on fake machines, without templates' files, enclosures, disks or a volume. What it writes is in memory. It separates nothing from anything, and no
// program that is installed has it: it's in builds with the tag "load" alone.
package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/service"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/instance"
)

// What the node says it has: enough for as many sandboxes as a node takes.
const (
	cpus        = 4096
	memoryBytes = 4 << 40
)

// volumeOptions bound what the host keeps in memory.
const volumeOptions = "size=2g,mode=0700"

// Host is a running host of fake machines.
type Host struct {
	uploads    *upload.Store
	snapshots  *snapshot.Store
	executions *execution.Table
	service    *service.Host
}

// Open goes on with what an earlier life of the daemon left, as the real host does. The driver is a fake one.
func Open(ctx context.Context, i instance.Instance, d vmm.Driver, version string) (*Host, error) {
	h := new(Host)
	if err := h.open(ctx, i, d, version); err != nil {
		h.Close()
		return nil, fmt.Errorf("open the host for load tests: %w", err)
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, i instance.Instance, d vmm.Driver, version string) (err error) {
	if err := mountVolume(i.Volume()); err != nil {
		return err
	}
	changes := service.NewChanges()
	dir := func(name string) string { return filepath.Join(i.Volume(), name) }
	templates, err := openTemplates(dir("templates"), changes.Notify)
	if err != nil {
		return err
	}
	if h.uploads, err = upload.Open(dir("uploads"), changes.Notify); err != nil {
		return err
	}
	ends, err := session.OpenEnds(dir("session-ends"), changes.Notify)
	if err != nil {
		return err
	}
	h.snapshots, err = snapshot.Open(snapshot.Config{Dir: dir("snapshots"), Volume: volume{}, Own: ownParts, Extents: extents, Changed: changes.Notify})
	if err != nil {
		return err
	}
	h.executions, err = execution.Open(ctx, execution.Config{
		Dir: dir("executions"), Sandboxes: dir("sandboxes"), Node: i.Node(), Driver: d, Enclosures: enclosures{i.EnclosuresDir()}, UIDs: uids.New(i.VMUIDs()),
		Templates: templates, Snapshots: h.snapshots, Most: rootfs.Size{VCPUs: cpus, MemoryBytes: memoryBytes, DiskBytes: memoryBytes}, Memory: meminfo.Read, Clone: clone,
		Room: func() error { return nil }, Keep: func(int64) error { return nil }, Reserve: func(int64) func() { return func() {} }, DiskUsage: func(context.Context, string) (int64, error) { return 0, nil }, Changed: changes.Notify,
		Promises: promise.New(math.MaxInt64), Sessions: session.Limits{Ends: ends},
	})
	if err != nil {
		return err
	}
	facts := &controlv1.NodeFacts{Driver: d.Name(), Acceleration: d.Capabilities().Acceleration, Cpus: cpus, MemoryBytes: memoryBytes, Version: version}
	h.service = &service.Host{
		Node: i.Node(), Executions: h.executions, Templates: templates, Snapshots: h.snapshots, Uploads: h.uploads, Ends: ends, Changes: changes,
		Facts: func() *controlv1.NodeFacts { return facts },
	}
	return nil
}

// mountVolume puts memory where the real host has its volume, so that all that removes the one removes the other.
func mountVolume(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	var here, above unix.Stat_t
	if err := errors.Join(unix.Stat(path, &here), unix.Stat(filepath.Dir(path), &above)); err != nil {
		return err
	}
	if here.Dev != above.Dev {
		return nil // an earlier life's
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, volumeOptions); err != nil {
		return fmt.Errorf("mount memory at %s: %w", path, err)
	}
	return nil
}

// clone makes a file that stands for a disk, or a memory: as large as the other one, and empty.
func clone(from, to string, _ int) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(info.Size()), f.Close())
}

// volume stands for subvolumes by directories.
type volume struct{}

func (volume) Make(path string) error   { return os.Mkdir(path, 0o700) }
func (volume) Freeze(string) error      { return nil }
func (volume) Delete(path string) error { return os.RemoveAll(path) }

// ownParts says that nothing of a file is its own: they're all empty.
func ownParts(context.Context, string) ([]seal.Part, error) { return nil, nil }

// extents says that a file has none, as ownParts does.
func extents(context.Context, string, func(disk.Extent)) error { return nil }

// Handler serves what sbx-manager asks for.
func (h *Host) Handler() http.Handler { return h.service.Handler() }

// Figures returns the metrics of what is here.
func (h *Host) Figures() prometheus.Collector { return h.executions.Figures() }

// Close lets go of everything; machines that have processes run on.
func (h *Host) Close() {
	if h.executions != nil {
		h.executions.Close()
	}
	if h.snapshots != nil {
		h.snapshots.Close()
	}
	if h.uploads != nil {
		h.uploads.Close()
	}
}
