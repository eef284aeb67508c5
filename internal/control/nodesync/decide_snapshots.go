package nodesync

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// snapshots decides about all snapshots. What it finds is what executions are decided by: which are there to be loaded, and which hold one.
func (d *decision) snapshots(wanted []record.WantedSnapshot) {
	d.kept, d.failed, d.lost = map[string]bool{}, map[string]bool{}, map[string]*space.Error{}
	reported := map[string]record.SnapshotStatus{}
	for _, r := range d.report.Snapshots {
		reported[r.ID] = r.Status
	}
	known := map[string]bool{}
	for _, w := range wanted {
		known[w.ID] = true
		r, there := reported[w.ID]
		switch {
		case w.Want == record.SnapshotAway:
			d.snapshotAway(w, there)
		case w.Recorded.State == record.SnapshotLost:
			d.snapshotLost(w, there)
		case there:
			d.snapshotPresent(w, r)
		default:
			d.snapshotAbsent(w)
		}
	}
	for _, r := range d.report.Snapshots {
		if !known[r.ID] && d.report.Complete {
			d.order(Order{Kind: RemoveSnapshot, Snapshot: r.ID}, true)
		}
	}
}

func (d *decision) snapshotAway(w record.WantedSnapshot, there bool) {
	switch {
	case there:
		d.order(Order{Kind: RemoveSnapshot, Snapshot: w.ID, Cause: w.Cause}, true)
	case d.report.Complete && d.believed(w.ID):
		d.seeSnapshot(w.ID, record.SnapshotStatus{State: record.SnapshotGone})
	}
}

// snapshotLost decides about a snapshot that was found to be lost. What is left of it on the node may be all that somebody has: it stays until the snapshot, or its
// sandbox, is deleted.
func (d *decision) snapshotLost(w record.WantedSnapshot, there bool) {
	if !there && d.report.Complete && d.believed(w.ID) {
		d.seeSnapshot(w.ID, record.SnapshotStatus{State: record.SnapshotGone})
	}
}

// snapshotPresent decides about a snapshot that should be there and is reported. What was ready stays what it was, with the digest that was recorded first: of another
// manifest under its name the node loads nothing, and says why to whoever wants it. It may be the right one again.
func (d *decision) snapshotPresent(w record.WantedSnapshot, r record.SnapshotStatus) {
	was := w.Recorded
	switch {
	case was.State == record.SnapshotReady && r.State == record.SnapshotReady && was.Digest != r.Digest:
		d.kept[w.ID] = true
		d.damage(w, space.Errorf(space.CodeSnapshotUnusable, "snapshot %s isn't the one that was made: its manifest has another digest than the one that was recorded; its disk may still be booted", w.ID))
	case was.State == record.SnapshotReady && r.State == record.SnapshotFailed && d.believed(w.ID):
		d.loseSnapshot(w.ID, orSnapshotLost(r.Error))
	case was.State == record.SnapshotReady && r.State != record.SnapshotReady: // it was said before it was ready
		d.kept[w.ID] = true
	case was.State == record.SnapshotReady:
		d.kept[w.ID] = true
		switch {
		case !same(r.Error, was.Error):
			d.damage(w, r.Error)
		case r.Bytes != 0 && r.Bytes != was.Bytes: // 0: the node has just begun, and doesn't know yet
			d.seeSnapshot(w.ID, r)
		}
	case r.State == record.SnapshotReady:
		d.kept[w.ID] = true
		d.seeSnapshot(w.ID, r)
	case r.State == record.SnapshotFailed:
		d.failed[w.ID] = true
		r.Error = whyFailed(w, r.Error)
		d.seeSnapshot(w.ID, r)
	default:
		if was.State == "" {
			d.seeSnapshot(w.ID, r)
		}
		d.take(w)
	}
}

// snapshotAbsent decides about a snapshot that should be there and isn't reported.
func (d *decision) snapshotAbsent(w record.WantedSnapshot) {
	switch {
	case w.Recorded.State == record.SnapshotReady:
		if !d.report.Complete || !d.believed(w.ID) {
			d.kept[w.ID] = true
			return
		}
		d.loseSnapshot(w.ID, space.Errorf(space.CodeExecutionLost, "the node no longer has the snapshot"))
	case !d.report.Complete:
	case !takeable(w):
		d.failed[w.ID] = true
		d.seeSnapshot(w.ID, record.SnapshotStatus{
			State: record.SnapshotFailed, Error: whyFailed(w, space.Errorf(space.CodeConflict, "the sandbox's machine is %s: there is nothing to take a snapshot of", w.Execution)),
		})
	default:
		d.take(w)
	}
}

// damage notes what is wrong with a snapshot that is there, or that nothing is any more: the rest stays as it was recorded.
func (d *decision) damage(w record.WantedSnapshot, err *space.Error) {
	if s := w.Recorded; !same(err, s.Error) {
		s.Error = err
		d.seeSnapshot(w.ID, s)
	}
}

func same(a, b *space.Error) bool {
	return a == b || a != nil && b != nil && a.Code == b.Code && a.Message == b.Message
}

// loseSnapshot finds a snapshot that was ready to be lost, and remembers why for what was in it.
func (d *decision) loseSnapshot(id string, why *space.Error) {
	d.lost[id] = why
	d.seeSnapshot(id, record.SnapshotStatus{State: record.SnapshotLost, Error: why})
}

// take orders a snapshot; one that holds an execution is made by that one's suspend.
func (d *decision) take(w record.WantedSnapshot) {
	if w.Want == record.SnapshotTaken {
		d.order(Order{Kind: TakeSnapshot, Route: w.Route, Snapshot: w.ID, Disk: w.Kind == record.SnapshotDisk, Cause: w.Cause}, w.Recorded.State != "")
	}
}

// takeable reports whether a snapshot can still be made of its execution. What a suspend was to hold, and doesn't, can't be made once the machine has ended.
func takeable(w record.WantedSnapshot) bool {
	switch w.Execution {
	case space.ExecutionRunning, space.ExecutionPaused:
		return true
	case space.ExecutionStopped:
		return w.Kind == record.SnapshotDisk && w.Want == record.SnapshotTaken
	default:
		return false
	}
}

func (d *decision) seeSnapshot(id string, s record.SnapshotStatus) {
	d.plan.Snapshots = append(d.plan.Snapshots, record.SnapshotSeen{ID: id, Status: s})
}

// whyFailed is why a snapshot couldn't be made. The delete of its sandbox is the reason of all that comes of it.
func whyFailed(w record.WantedSnapshot, err *space.Error) *space.Error {
	switch {
	case w.DeletedBy != "":
		return record.DeletedMeanwhile(w.DeletedBy)
	case err == nil:
		return space.Errorf(space.CodeInternal, "the snapshot couldn't be made, and the node gave no reason")
	default:
		return err
	}
}

func orSnapshotLost(err *space.Error) *space.Error {
	if err == nil {
		return space.Errorf(space.CodeExecutionLost, "the snapshot is gone, and the node gave no reason")
	}
	return err
}
