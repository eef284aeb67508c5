package execution

import (
	"fmt"
	"os"
	"path/filepath"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/host/snapshot"
	"github.com/space-platform/space/internal/host/template"
)

// lineage is where a machine comes from.
type lineage struct {
	Loaded         bool   `json:"loaded,omitempty"` // it was loaded, and mem.img is a copy of what from; else it booted
	Parent         string `json:"parent,omitempty"` // the snapshot of a sandbox that it was loaded from, or whose disk it booted
	ParentDigest   string `json:"parent_digest,omitempty"`
	TemplateDigest string `json:"template_digest,omitempty"`
	Kernel         string `json:"kernel,omitempty"`
}

// fromSnapshot loads a snapshot of a sandbox, or boots from its disk. It's compared with what was ordered before anything is made.
func (e *execution) fromSnapshot() (origin, error) {
	s, give, err := e.cfg.Snapshots.Borrow(e.rec.Snapshot, e.rec.SnapshotDigest, e.rec.Cold)
	if err != nil {
		return origin{}, err
	}
	o := origin{disk: s.Disk, size: e.rec.Size, keep: s.Route.Sandbox == e.route.Sandbox, give: give,
		lineage: lineage{Parent: s.Snapshot, ParentDigest: s.Digest, TemplateDigest: s.TemplateDigest, Kernel: e.cfg.Kernel.Digest}}
	if e.rec.Cold || s.Kind == snapshot.Disk {
		err = e.bootOf(s, &o)
	} else {
		err = loadOf(s, &o)
	}
	if err != nil {
		give()
		return origin{}, err
	}
	return o, nil
}

// bootOf boots from a snapshot's disk, made as large as wanted.
func (e *execution) bootOf(s snapshot.Snapshot, o *origin) error {
	if o.size == (rootfs.Size{}) {
		o.size = s.Size
	}
	return e.checkSize(o.size, s.Size.DiskBytes)
}

// loadOf loads a snapshot, whose size is fixed.
func loadOf(s snapshot.Snapshot, o *origin) error {
	if o.size != (rootfs.Size{}) && o.size != s.Size {
		return shapeError("shape", "it's fixed in snapshot %s, with %d CPUs, %d bytes of memory and %d of disk; boot from its disk for another one",
			s.Snapshot, s.Size.VCPUs, s.Size.MemoryBytes, s.Size.DiskBytes)
	}
	o.size = s.Size
	o.snapshot = &template.Snapshot{State: s.State, Memory: s.Memory, Disk: s.Disk, Digest: s.Digest, Sealed: s.Sealed, Size: s.Size, Manifest: s.VMM}
	o.lineage.Loaded, o.lineage.Kernel = true, s.Kernel
	o.sessions = s.Sessions
	return nil
}

// restoreSessions makes the sessions in a sandbox's snapshot this execution's.
func (e *execution) restoreSessions(o origin) error {
	if err := e.dropSessions(); err != nil { // what a life left that died before it ran
		return err
	}
	if o.sessions == "" {
		return nil
	}
	kept, err := e.kept.open()
	if err != nil {
		return err
	}
	copies, err := session.Restore(o.sessions, kept.Place(e.route.Execution), o.keep)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.rec.Sessions = copies
	e.mu.Unlock()
	return nil
}

// takeOver ends the sandbox's other executions' hold on the sessions that go on in this one; what they have begun since the snapshot is lost.
func (e *execution) takeOver() {
	kept, err := e.kept.open()
	if err == nil {
		err = kept.Yield(e.ownSessions(), e.route.Execution,
			space.Errorf(space.CodeSessionLost, "the sandbox goes on from snapshot %s, which the session isn't part of", e.rec.Snapshot))
	}
	if err != nil {
		e.log.Warn("what is left of sessions that go on elsewhere can't be removed", "err", err)
	}
}

// ownSessions are those that came with the snapshot.
func (e *execution) ownSessions() []string {
	var ids []string
	for _, c := range e.rec.Sessions {
		ids = append(ids, c.Session)
	}
	return ids
}

// sweepTakenOver removes what an earlier life didn't come to: the records of sessions that go on in a newer execution of their sandbox.
func (t *Table) sweepTakenOver(records map[string]record) error {
	for _, newer := range records {
		if newer.State == space.ExecutionPending || newer.State == space.ExecutionFailed {
			continue
		}
		for _, c := range newer.Sessions {
			for _, older := range records {
				if older.Route.Sandbox != newer.Route.Sandbox || older.Route.Epoch >= newer.Route.Epoch {
					continue
				}
				place := filepath.Join(t.cfg.Sandboxes, space.HostLabel(older.Route.Sandbox), space.HostLabel(older.Route.Execution))
				if err := os.RemoveAll(filepath.Join(place, space.HostLabel(c.Session))); err != nil {
					return fmt.Errorf("remove a session that goes on elsewhere: %w", err)
				}
			}
		}
	}
	return nil
}
