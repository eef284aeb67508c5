package execution

import (
	"context"
	"fmt"
	"os"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/promise"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/template"
)

// origin is what an execution's machine is made from: a snapshot, or a disk from which it boots.
type origin struct {
	disk     string
	size     rootfs.Size        // of the machine; its disk may be larger than the origin's
	snapshot *template.Snapshot // nil for a boot
	keep     bool               // it's the same sandbox's
	lineage  lineage
	sessions string // a directory with the sessions in a sandbox's snapshot; "": none
	give     func() // lets go of the files
}

// why is what the machine is started for.
func (o origin) why() machine.Origin {
	if o.snapshot == nil {
		return machine.Boot
	}
	return machine.Load
}

// sharedLacks is what the machine may be charged for beside its own memory: pages that the memory which it shares with others doesn't have so far.
func (o origin) sharedLacks() (int64, error) {
	if o.snapshot == nil || o.snapshot.Sealed == nil {
		return 0, nil
	}
	return seal.Lacks(o.snapshot.Sealed)
}

// shared is the memory that the machine shares with others; zero: none.
func (o origin) shared() (promise.Shared, error) {
	if o.snapshot == nil || o.snapshot.Sealed == nil {
		return promise.Shared{}, nil
	}
	return seal.Identify(o.snapshot.Sealed)
}

// findOrigin finds what the record asks for.
func (e *execution) findOrigin(ctx context.Context) (origin, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	switch {
	case e.rec.Snapshot != "":
		return e.fromSnapshot()
	case e.rec.DiskOf != "":
		return e.fromDisk(ctx)
	default:
		return e.fromTemplate()
	}
}

// fromTemplate loads the template's snapshot if it has the size that is wanted, and boots from its disk otherwise.
func (e *execution) fromTemplate() (origin, error) {
	s, give, err := e.cfg.Templates.SnapshotFor(e.rec.Template, e.rec.Size)
	if err != nil {
		return origin{}, err
	}
	o := origin{disk: s.Disk, size: s.Size, snapshot: &s, give: give, lineage: lineage{Loaded: true, TemplateDigest: s.Digest, Kernel: s.Kernel}}
	if want := e.rec.Size; want != (rootfs.Size{}) && want != s.Size {
		o.size, o.snapshot = want, nil
		o.lineage.Loaded, o.lineage.Kernel = false, e.cfg.Kernel.Digest
		if err := e.checkSize(want, s.Size.DiskBytes); err != nil {
			give()
			return origin{}, err
		}
	}
	return o, nil
}

// fromDisk boots from the disk of an execution that has ended. That one keeps it: the copy shares its blocks, and costs nothing.
func (e *execution) fromDisk(ctx context.Context) (origin, error) {
	old, give, err := e.table.lend(ctx, e.rec.DiskOf, e.route)
	if err != nil {
		return origin{}, err
	}
	was := old.recorded()
	o := origin{disk: old.file(diskName), size: e.rec.Size, keep: true, give: give, lineage: lineage{TemplateDigest: was.Lineage.TemplateDigest, Kernel: e.cfg.Kernel.Digest}}
	info, err := os.Stat(o.disk)
	switch {
	case err != nil:
		err = space.Errorf(space.CodeExecutionLost, "the disk of execution %s is gone: %w", e.rec.DiskOf, err)
	case o.size == rootfs.Size{}:
		o.size = was.Size
	default:
		err = e.checkSize(o.size, info.Size())
	}
	if err != nil {
		give()
		return origin{}, err
	}
	return o, nil
}

// recorded is the record as it is now, for whoever isn't the owner: the owner changes it, and alone may look without the lock.
func (e *execution) recorded() record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec
}

// lend returns the execution of an id, which has ended and holds nothing but its disk, to another execution of its sandbox. The disk stays
// until give is called.
func (t *Table) lend(ctx context.Context, id string, to space.Route) (_ *execution, give func(), err error) {
	t.mu.Lock()
	e, ok := t.execs[id]
	t.mu.Unlock()
	if !ok || e.route.Sandbox != to.Sandbox {
		return nil, nil, space.Errorf(space.CodeExecutionLost, "the node has no disk of execution %s for sandbox %s", id, to.Sandbox)
	}
	if s := e.report().State; s != space.ExecutionStopped && s != space.ExecutionLost {
		return nil, nil, space.Errorf(space.CodeConflict, "execution %s is %s: its disk isn't free", id, s)
	}
	if err := e.await(ctx, e.freed); err != nil {
		return nil, nil, err
	}
	e.lent.RLock()
	if isSignalled(e.removal) { // its files may be gone already
		e.lent.RUnlock()
		return nil, nil, space.Errorf(space.CodeConflict, "execution %s is being removed", id)
	}
	return e, e.lent.RUnlock, nil
}

// checkSize refuses a size that this node can't give a machine whose disk begins as large as have.
func (e *execution) checkSize(want rootfs.Size, have int64) error {
	most := e.cfg.Most
	switch {
	case want.VCPUs < 1 || want.VCPUs > most.VCPUs:
		return shapeError("shape.vcpus", "%d: this node gives a machine 1 to %d", want.VCPUs, most.VCPUs)
	case want.MemoryBytes < leastMemory || want.MemoryBytes > most.MemoryBytes || want.MemoryBytes%mib != 0:
		return shapeError("shape.memory_bytes", "%d: this node gives a machine %d to %d, whole MiB", want.MemoryBytes, int64(leastMemory), most.MemoryBytes)
	case want.DiskBytes < have || want.DiskBytes > most.DiskBytes || want.DiskBytes%mib != 0:
		return shapeError("shape.disk_bytes", "%d: the disk has %d and can be made as large as %d, whole MiB", want.DiskBytes, have, most.DiskBytes)
	}
	return nil
}

const (
	mib         = 1 << 20
	leastMemory = space.MinMemoryMiB * mib
)

func shapeError(field, format string, args ...any) error {
	return &space.Error{Code: space.CodeShapeUnavailable, Field: field, Message: fmt.Sprintf(format, args...)}
}
