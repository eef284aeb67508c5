// Package host is spaced-host: the only process of a node that touches machines, disks and namespaces. It puts the parts below it
// together; each of them says what it does.
package host

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/execution"
	"github.com/space-platform/space/internal/host/image"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/service"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/upload"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/instance"
)

// Config is what a Host is made of. The volume is mounted.
type Config struct {
	Instance instance.Instance
	Volume   disk.Volume
	Driver   vmm.Driver
	Kernel   kernel.Files
	Helper   rootfs.Helper // makes file systems
	DataDir  string        // for what needn't be on the volume: uploads, and layers from registries
	Pool     execution.PoolConfig
	Paged    bool     // the memory of loaded machines comes page by page; the driver must be able to
	Insecure []string // registries that needn't speak TLS, as HOST or HOST:PORT
	Allowed  []string // registries that needn't be on the public internet, as HOST, HOST:PORT or network
	Version  string   // of this build

	MemoryOvercommit int // how many times the memory is promised; 0 is 1
}

// The directories on the volume, and those in the data directory.
const (
	templatesName  = "templates"
	layersName     = "layers"
	setsName       = "working-sets"
	executionsName = "executions"
	snapshotsName  = "snapshots"
	sandboxesName  = "sandboxes"
	endsName       = "session-ends"

	uploadsName = "uploads"
	blobsName   = "blobs"
)

// RunningDriver returns the name of the driver of the machines that an earlier life of the daemon has left running on a volume that is mounted; "" if there
// are none.
func RunningDriver(v disk.Volume) (string, error) {
	return execution.RunningDriver(filepath.Join(v.Path, executionsName))
}

// layersShare is how much of the volume the layers of template builds may take: a quarter. They share blocks with templates, and the
// oldest go when there are more.
const layersShare = 4

// Host is a running spaced-host.
type Host struct {
	jail       *jail.Jail
	uploads    *upload.Store
	templates  *template.Store
	snapshots  *snapshot.Store
	executions *execution.Table
	service    *service.Host

	watching sync.WaitGroup // the pressure's
	unwatch  context.CancelFunc
}

// Open removes what earlier lives left behind, and goes on with what they were doing. Machines that run are found again.
func Open(ctx context.Context, c Config) (*Host, error) {
	if err := image.CheckAllowed(c.Allowed); err != nil {
		return nil, fmt.Errorf("allowed_registries: %w", err)
	}
	if c.Paged && !c.Driver.Capabilities().PagedMemory {
		return nil, fmt.Errorf("memory can't come page by page with driver %s here", c.Driver.Name())
	}
	j, err := jail.New(c.Instance)
	if err != nil {
		return nil, err
	}
	h := &Host{jail: j}
	if err := h.open(ctx, c); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) open(ctx context.Context, c Config) (err error) {
	executions := filepath.Join(c.Volume.Path, executionsName)
	pool := uids.New(c.Instance.VMUIDs())
	if err := h.sweep(ctx, executions, pool); err != nil {
		return err
	}
	if err := h.testDriver(ctx, c, pool); err != nil {
		return err
	}
	changes, facts := service.NewChanges(), factsOf(c)
	promises := promise.New(int64(facts.GetSandboxMemoryBytes()))
	recalled, err := execution.Recall(executions, promises, c.overhead()) // before templates take what is left for their machines to share
	if err != nil {
		return err
	}
	if h.uploads, err = upload.Open(filepath.Join(c.DataDir, uploadsName), changes.Notify); err != nil {
		return err
	}
	p, err := newPressure(c.Volume, facts, changes.Notify)
	if err != nil {
		return err
	}
	h.templates, err = h.openTemplates(ctx, c, pool, p, promises, changes.Notify)
	if err != nil {
		return err
	}
	ends, err := session.OpenEnds(filepath.Join(c.Volume.Path, endsName), changes.Notify)
	if err != nil {
		return err
	}
	h.snapshots, err = snapshot.Open(snapshot.Config{
		Dir: filepath.Join(c.Volume.Path, snapshotsName), Volume: volume{}, Own: disk.OwnParts, Changed: changes.Notify,
		Template: h.templates.Origin, Extents: disk.Extents, Templates: filepath.Join(c.Volume.Path, templatesName),
		Seal: c.Driver.Capabilities().SealedMemory && !c.Driver.Capabilities().SharedMemory, MemoryBytes: int64(facts.GetMemoryBytes()), Promises: promises,
	})
	if err != nil {
		return err
	}
	h.executions, err = execution.Open(ctx, execution.Config{
		Dir: executions, Sandboxes: filepath.Join(c.Volume.Path, sandboxesName), Node: c.Instance.Node(), Driver: c.Driver, Enclosures: h.jail, UIDs: pool,
		Templates: h.templates, Snapshots: h.snapshots, Kernel: c.Kernel, Most: mostOf(facts), Clone: disk.Clone, DiskUsage: disk.Own, Room: func() error { return room(p.usage) }, Keep: p.Keep, Reserve: p.Reserve, Changed: changes.Notify,
		Pool: c.Pool, Paged: c.Paged, Memory: meminfo.Read, Promises: promises, Overhead: c.overhead(), Sessions: session.Limits{Ends: ends, Spare: p.Spare},
	})
	if err != nil {
		return err
	}
	recalled()
	p.largest = h.executions.Largest
	h.service = &service.Host{
		Node: c.Instance.Node(), Executions: h.executions, Templates: h.templates, Snapshots: h.snapshots, Uploads: h.uploads, Ends: ends, Changes: changes,
		Facts: func() *controlv1.NodeFacts { return withPromises(p.Facts(), promises) },
	}
	watched, unwatch := context.WithCancel(context.Background())
	h.unwatch = unwatch
	h.watching.Go(func() { p.watch(watched, p.look) })
	return nil
}

// withPromises are facts with what the memory is promised to beside sandboxes.
func withPromises(f *controlv1.NodeFacts, l *promise.Ledger) *controlv1.NodeFacts {
	out := proto.CloneOf(f)
	out.ReservedMemoryBytes = uint64(l.Beside())
	return out
}

func (h *Host) openTemplates(ctx context.Context, c Config, pool *uids.Pool, p *pressure, promises *promise.Ledger, changed func()) (*template.Store, error) {
	u, err := c.Volume.Usage()
	if err != nil {
		return nil, err
	}
	return template.Open(ctx, template.Config{
		Dir: filepath.Join(c.Volume.Path, templatesName), Layers: filepath.Join(c.Volume.Path, layersName), Sets: filepath.Join(c.Volume.Path, setsName), LayerBytes: u.Bytes / layersShare,
		Blobs: filepath.Join(c.DataDir, blobsName), Insecure: c.Insecure, Allowed: c.Allowed,
		Volume: volume{}, Clone: disk.Clone, Room: func() error { return room(p.usage) }, Memory: meminfo.Read, Promises: promises, Driver: c.Driver, Enclosures: h.jail, UIDs: pool,
		Kernel: c.Kernel, Helper: c.Helper, Uploads: h.uploads, Changed: changed,
	})
}

// sweep removes enclosures and processes that belong to no execution: a template build's, or those of a record that is gone. The others keep
// their uids from then on, so that no build that begins before the executions are read gets one of theirs.
func (h *Host) sweep(ctx context.Context, executions string, pool *uids.Pool) error {
	known, err := execution.Known(executions)
	if err != nil {
		return err
	}
	for _, uid := range known {
		pool.Keep(uid)
	}
	removed, err := h.jail.Sweep(ctx, known)
	for _, l := range removed {
		slog.Info("removed a leftover", "kind", l.Kind, "id", l.ID)
	}
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	return nil
}

// Handler serves what sbx-manager asks for.
func (h *Host) Handler() http.Handler { return h.service.Handler() }

// Figures returns the metrics of what is here.
func (h *Host) Figures() prometheus.Collector { return h.executions.Figures() }

// Close lets go of everything; machines run on. The handler must not be in use any more.
func (h *Host) Close() {
	if h.unwatch != nil {
		h.unwatch()
		h.watching.Wait()
	}
	if h.executions != nil {
		h.executions.Close()
	}
	if h.snapshots != nil { // after the executions, which load from them and make them
		h.snapshots.Close()
	}
	if h.templates != nil { // as well
		h.templates.Close()
	}
	if h.uploads != nil { // after the templates, which are built from them
		h.uploads.Close()
	}
	h.jail.Close()
}

// maxDisk is the largest disk of a machine: its blocks are taken from the volume as they are written.
const maxDisk = 1 << 40

// mostOf is what one machine may have: all of the node.
func mostOf(f *controlv1.NodeFacts) rootfs.Size {
	return rootfs.Size{VCPUs: int(f.GetCpus()), MemoryBytes: int64(f.GetMemoryBytes()), DiskBytes: maxDisk}
}

func factsOf(c Config) *controlv1.NodeFacts {
	memory, err := meminfo.Read()
	if err != nil {
		slog.Warn("can't tell how much memory the node has", "err", err)
	}
	return &controlv1.NodeFacts{
		Driver: c.Driver.Name(), Acceleration: c.Driver.Capabilities().Acceleration, Cpus: uint32(runtime.NumCPU()),
		MemoryBytes: uint64(memory.Total), Version: c.Version, SandboxMemoryBytes: uint64(promisable(memory.Total, c.MemoryOvercommit)),
		OverheadBytes: uint64(c.overhead()),
	}
}

// volume is the btrfs volume as templates need it.
type volume struct{}

func (volume) Make(path string) error   { return disk.CreateSubvolume(path) }
func (volume) Freeze(path string) error { return disk.SetReadOnly(path) }

// Delete removes subvolumes and directories alike.
func (volume) Delete(path string) error {
	if err := disk.DeleteSubvolume(path); err == nil {
		return nil
	}
	return os.RemoveAll(path)
}
