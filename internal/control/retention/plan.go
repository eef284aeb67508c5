// Package retention decides which snapshots sandboxes take of themselves, and which of those that nobody asked for aren't needed any more. What somebody asked
// for stays until somebody deletes it, or its sandbox; what a sandbox is suspended into or is being made of stays whatever is decided here: the store sees to that.
package retention

import (
	"cmp"
	"slices"
	"time"

	"github.com/space-platform/space/internal/control/record"
)

// DefaultTiers keep all of the last hour, one for each hour of the last day, and one for each day of the last week.
func DefaultTiers() []record.Tier {
	return []record.Tier{{Every: 0, For: time.Hour}, {Every: time.Hour, For: 24 * time.Hour}, {Every: 24 * time.Hour, For: 7 * 24 * time.Hour}}
}

// failedKept is how long one that nobody asked for and that couldn't be made is listed, with the reason. They count with how many a sandbox may have, and where a volume is
// full each interval adds one.
const failedKept = time.Hour

// Due says whether a sandbox takes a snapshot of itself at a time, and of which kind. One is made at a time: where they take longer than the interval, or wait
// for room on their node, they don't pile up.
func Due(now time.Time, r record.Rolling, last record.Rolled) (record.SnapshotKind, bool) {
	switch {
	case last.Making:
		return "", false
	case r.FullEvery > 0 && !last.FullAt.Add(r.FullEvery).After(now):
		return record.SnapshotFull, true
	case r.DiskEvery > 0 && !last.DiskAt.Add(r.DiskEvery).After(now):
		return record.SnapshotDisk, true
	default:
		return "", false
	}
}

// Unneeded returns those of a sandbox's snapshots that may go at a time. Of those that are ready and of its past the newest is its recovery point, and
// stays, as does the newest that has its memory. The newest of all stays, too: whoever has given that up may want it back. Those that
// couldn't be made go after an hour. rolling is how it takes snapshots of itself; nil: it doesn't, or doesn't any more.
func Unneeded(now time.Time, rolling *record.Rolling, all []record.Snapshot) []record.Snapshot {
	ready := slices.DeleteFunc(slices.Clone(all), func(n record.Snapshot) bool { return n.Status.State != record.SnapshotReady || n.Deleted })
	slices.SortFunc(ready, func(a, b record.Snapshot) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	stays := map[string]bool{}
	tiers, budget := DefaultTiers(), uint64(0)
	if rolling != nil {
		tiers, budget = rolling.Keep, rolling.BudgetBytes
	}
	for _, kind := range []record.SnapshotKind{record.SnapshotFull, record.SnapshotDisk} {
		for _, t := range tiers {
			keepTier(now, t, kind, ready, stays)
		}
	}
	if budget > 0 {
		keepWithin(budget, ready, stays)
	}
	newest := func(record.Snapshot) bool { return true }
	isPast := func(n record.Snapshot) bool { return !n.GivenUp }
	hasMemory := func(n record.Snapshot) bool { return !n.GivenUp && n.Kind == record.SnapshotFull }
	for _, is := range []func(record.Snapshot) bool{newest, isPast, hasMemory} {
		if i := slices.IndexFunc(ready, is); i >= 0 {
			stays[ready[i].ID] = true
		}
	}
	var out []record.Snapshot
	for _, n := range slices.Backward(ready) {
		if n.Purpose != record.PurposeAsked && !stays[n.ID] {
			out = append(out, n)
		}
	}
	for _, n := range all {
		if n.Status.State == record.SnapshotFailed && !n.Deleted && n.Purpose != record.PurposeAsked && now.Sub(n.CreatedAt) > failedKept {
			out = append(out, n)
		}
	}
	return out
}

// keepTier keeps of the snapshots of one kind that a sandbox took of itself, newest first, the newest one in each interval of a tier.
func keepTier(now time.Time, t record.Tier, kind record.SnapshotKind, ready []record.Snapshot, stays map[string]bool) {
	taken := map[int64]bool{} // intervals, counted from the beginning of time: what is kept doesn't change as time goes on
	for _, n := range ready {
		if n.Purpose != record.PurposeRolling || n.Kind != kind || now.Sub(n.CreatedAt) > t.For {
			continue
		}
		if t.Every == 0 {
			stays[n.ID] = true
			continue
		}
		if i := n.CreatedAt.UnixNano() / int64(t.Every); !taken[i] {
			taken[i], stays[n.ID] = true, true
		}
	}
}

// keepWithin lets the oldest go of what a sandbox took of itself until the rest is within a budget. The newest stays, however large it is.
func keepWithin(budget uint64, ready []record.Snapshot, stays map[string]bool) {
	sum, first := uint64(0), true
	for _, n := range ready {
		if n.Purpose != record.PurposeRolling || !stays[n.ID] {
			continue
		}
		sum += n.Status.Bytes
		if sum > budget && !first {
			stays[n.ID] = false
		}
		first = false
	}
}
