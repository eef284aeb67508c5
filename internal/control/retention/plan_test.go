package retention

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/space-platform/space/internal/control/record"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func shot(id string, ago time.Duration, p record.SnapshotPurpose, kind record.SnapshotKind, bytes uint64) record.Snapshot {
	return record.Snapshot{ID: id, Purpose: p, Kind: kind, CreatedAt: now.Add(-ago), Status: record.SnapshotStatus{State: record.SnapshotReady, Bytes: bytes}}
}

func failed(n record.Snapshot) record.Snapshot {
	n.Status.State = record.SnapshotFailed
	return n
}

func givenUp(n record.Snapshot) record.Snapshot {
	n.GivenUp = true
	return n
}

func ids(all []record.Snapshot) []string {
	out := []string{}
	for _, n := range all {
		out = append(out, n.ID)
	}
	return out
}

func TestUnneeded(t *testing.T) {
	const full, disk = record.SnapshotFull, record.SnapshotDisk
	for _, x := range []struct {
		name    string
		rolling *record.Rolling
		all     []record.Snapshot
		want    []string
	}{
		{name: "none"},
		{name: "a suspend's stays as recovery point", all: []record.Snapshot{shot("s", time.Hour, record.PurposeSuspend, full, 1)}},
		{name: "until a newer one takes its place", all: []record.Snapshot{shot("s", 2*time.Hour, record.PurposeSuspend, full, 1), shot("t", time.Hour, record.PurposeSuspend, full, 1)}, want: []string{"s"}},
		{name: "which has memory, too", all: []record.Snapshot{shot("s", 2*time.Hour, record.PurposeSuspend, full, 1), shot("d", time.Hour, record.PurposeAsked, disk, 1)}},
		{name: "what was asked for stays", all: []record.Snapshot{shot("a", 90*24*time.Hour, record.PurposeAsked, full, 1), shot("f", time.Hour, record.PurposeFork, full, 1), shot("b", 0, record.PurposeAsked, full, 1)}, want: []string{"f"}},
		{name: "a fork's that is the newest stays", all: []record.Snapshot{shot("s", 2*time.Hour, record.PurposeSuspend, full, 1), shot("f", time.Hour, record.PurposeFork, full, 1)}, want: []string{"s"}},
		{name: "after a rollback its past's newest stays, and what was given up last", all: []record.Snapshot{
			shot("s", 3*time.Hour, record.PurposeSuspend, full, 1), shot("t", 2*time.Hour, record.PurposeSuspend, full, 1), givenUp(shot("u", time.Hour, record.PurposeSuspend, full, 1)),
			givenUp(shot("v", time.Minute, record.PurposeSuspend, full, 1)),
		}, want: []string{"s", "u"}},
		{name: "tiers", all: []record.Snapshot{
			shot("now", 0, record.PurposeRolling, full, 1), shot("10m", 10*time.Minute, record.PurposeRolling, full, 1), shot("50m", 50*time.Minute, record.PurposeRolling, full, 1),
			shot("2h10", 130*time.Minute, record.PurposeRolling, full, 1), shot("2h50", 170*time.Minute, record.PurposeRolling, full, 1), shot("3h10", 190*time.Minute, record.PurposeRolling, full, 1),
			shot("2d1h", 49*time.Hour, record.PurposeRolling, full, 1), shot("2d2h", 50*time.Hour, record.PurposeRolling, full, 1), shot("9d", 9*24*time.Hour, record.PurposeRolling, full, 1),
		}, want: []string{"9d", "2d2h", "2h50"}},
		{name: "what couldn't be made, an hour later, unless somebody asked for it", all: []record.Snapshot{
			failed(shot("a", 59*time.Minute, record.PurposeRolling, full, 0)), failed(shot("b", 61*time.Minute, record.PurposeRolling, full, 0)),
			failed(shot("c", 61*time.Minute, record.PurposeSuspend, full, 0)), failed(shot("d", 61*time.Minute, record.PurposeAsked, full, 0)), shot("e", 2*time.Hour, record.PurposeRolling, full, 1),
		}, want: []string{"b", "c"}},
		{name: "budget", rolling: &record.Rolling{Keep: DefaultTiers(), BudgetBytes: 10}, all: []record.Snapshot{
			shot("1", 1*time.Minute, record.PurposeRolling, full, 6), shot("2", 2*time.Minute, record.PurposeRolling, full, 4), shot("3", 3*time.Minute, record.PurposeRolling, full, 1),
		}, want: []string{"3"}},
		{name: "a budget that the newest is beyond", rolling: &record.Rolling{Keep: DefaultTiers(), BudgetBytes: 1}, all: []record.Snapshot{
			shot("1", 1*time.Minute, record.PurposeRolling, full, 6), shot("2", 2*time.Minute, record.PurposeRolling, full, 4),
		}, want: []string{"2"}},
	} {
		if got := ids(Unneeded(now, x.rolling, x.all)); !slices.Equal(got, append([]string{}, x.want...)) {
			t.Errorf("%s: %v may go, want %v", x.name, got, x.want)
		}
	}
}

// TestWhatMustStay holds any plan to what it must not do, and to go on from its own outcome: nothing more goes at the same moment.
func TestWhatMustStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []record.Snapshot
		for i := range rapid.IntRange(0, 40).Draw(t, "snapshots") {
			n := shot(fmt.Sprint(i), time.Duration(rapid.Int64Range(0, int64(10*24*time.Hour)).Draw(t, "age")),
				rapid.SampledFrom([]record.SnapshotPurpose{record.PurposeAsked, record.PurposeSuspend, record.PurposeFork, record.PurposeRolling}).Draw(t, "purpose"),
				rapid.SampledFrom([]record.SnapshotKind{record.SnapshotDisk, record.SnapshotFull}).Draw(t, "kind"), rapid.Uint64Range(0, 100).Draw(t, "bytes"))
			n.Status.State = rapid.SampledFrom([]record.SnapshotState{record.SnapshotReady, record.SnapshotReady, record.SnapshotMaking, record.SnapshotFailed}).Draw(t, "state")
			all = append(all, n)
		}
		var r *record.Rolling
		if rapid.Bool().Draw(t, "rolling") {
			r = &record.Rolling{Keep: DefaultTiers(), BudgetBytes: rapid.Uint64Range(0, 500).Draw(t, "budget")}
		}
		goes := Unneeded(now, r, all)
		left := slices.DeleteFunc(slices.Clone(all), func(n record.Snapshot) bool { return slices.Contains(ids(goes), n.ID) })
		for _, n := range goes {
			failed := n.Status.State == record.SnapshotFailed && now.Sub(n.CreatedAt) > time.Hour
			if n.Purpose == record.PurposeAsked || n.Status.State != record.SnapshotReady && !failed {
				t.Fatalf("%+v goes", n)
			}
		}
		if a, b := recovery(all), recovery(left); a != b {
			t.Fatalf("the recovery point was %s and is %s", a, b)
		}
		if again := Unneeded(now, r, left); len(again) > 0 {
			t.Fatalf("%v go at the same moment", ids(again))
		}
		rolls := func(n record.Snapshot) bool { return n.Purpose == record.PurposeRolling }
		hasMemory := func(n record.Snapshot) bool { return n.Kind == record.SnapshotFull }
		exempt := []string{recovery(all), newest(all, hasMemory), newest(left, rolls)}
		bytes := uint64(0)
		for _, n := range left {
			if rolls(n) && n.Status.State == record.SnapshotReady && !slices.Contains(exempt, n.ID) {
				bytes += n.Status.Bytes
			}
		}
		if r != nil && r.BudgetBytes > 0 && bytes > r.BudgetBytes {
			t.Fatalf("%d bytes are left of a budget of %d", bytes, r.BudgetBytes)
		}
	})
}

// recovery is the newest snapshot that is ready.
func recovery(all []record.Snapshot) string {
	return newest(all, func(record.Snapshot) bool { return true })
}

// newest is the newest one of some that is ready.
func newest(all []record.Snapshot, some func(record.Snapshot) bool) string {
	id, at := "", time.Time{}
	for _, n := range all {
		if n.Status.State == record.SnapshotReady && some(n) && (n.CreatedAt.After(at) || n.CreatedAt.Equal(at) && n.ID > id) {
			id, at = n.ID, n.CreatedAt
		}
	}
	return id
}

func TestDue(t *testing.T) {
	both := record.Rolling{DiskEvery: 10 * time.Minute, FullEvery: 30 * time.Minute}
	ago := func(full, disk time.Duration) record.Rolled {
		return record.Rolled{FullAt: now.Add(-full), DiskAt: now.Add(-disk)}
	}
	for _, x := range []struct {
		name string
		r    record.Rolling
		last record.Rolled
		want record.SnapshotKind
	}{
		{name: "none wanted", last: ago(time.Hour, time.Hour)},
		{name: "both are due", r: both, last: ago(time.Hour, time.Hour), want: record.SnapshotFull},
		{name: "too soon", r: record.Rolling{FullEvery: 2 * time.Hour}, last: ago(time.Hour, time.Hour)},
		{name: "at the moment", r: both, last: ago(30*time.Minute, time.Minute), want: record.SnapshotFull},
		{name: "a disk between full ones", r: both, last: ago(20*time.Minute, 10*time.Minute), want: record.SnapshotDisk},
		{name: "a disk has no memory", r: record.Rolling{FullEvery: 30 * time.Minute}, last: ago(time.Hour, time.Minute), want: record.SnapshotFull},
		{name: "the last one is being made", r: both, last: record.Rolled{FullAt: now.Add(-time.Hour), DiskAt: now.Add(-time.Hour), Making: true}},
	} {
		if got, due := Due(now, x.r, x.last); got != x.want || due != (x.want != "") {
			t.Errorf("%s: %q, %v", x.name, got, due)
		}
	}
}
