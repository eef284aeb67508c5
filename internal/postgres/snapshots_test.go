package postgres_test

import (
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/pgtest"
)

// TestSnapshotLimit fills a sandbox with snapshots: no more are taken, and it's suspended nevertheless.
func TestSnapshotLimit(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id, r := s.box.Route.Sandbox, s.box.Route
	const limit = 1000
	fill := func(n int) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), `INSERT INTO snapshots
			(id, project, sandbox, execution, epoch, placement_kind, node, pod_uid, template, kind, purpose, name, vcpus, memory_bytes, disk_bytes)
			SELECT 'snp_' || gen_random_uuid(), $1, $2, $3, 1, 'node', $4, '', $5, 'disk', 'asked', '', 1, 1, 1 FROM generate_series(1, $6::integer)`,
			s.project, id, r.Execution, s.name, s.tpl.ID, n); err != nil {
			t.Fatal(err)
		}
	}
	take := func() error {
		_, err := s.verbs.Take(t.Context(), s.project, id, record.SnapshotDisk, "", record.Request{})
		return err
	}
	fill(limit - 1)
	if err := take(); err != nil {
		t.Fatalf("the last one that is allowed: %v", err)
	}
	s.failSnapshot(t, id)
	if err := take(); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("one more: %v", err)
	}
	must(t)(s.verbs.Suspend(t.Context(), s.project, id))
	if state := sandboxes.State(s.sandbox(t, id)); state != space.StateSuspending {
		t.Errorf("a sandbox with as many snapshots is %s when it's to be suspended", state)
	}
}

// taken has the node say that a sandbox's newest snapshot is there, and counts so many bytes.
func (s *scene) taken(t *testing.T, sandbox string, bytes uint64) string {
	t.Helper()
	rows, err := s.store.Snapshots(t.Context(), s.project, sandbox, record.Position{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	status := record.SnapshotStatus{State: record.SnapshotReady, Digest: "sha256:x", At: time.Now(), Bytes: bytes}
	if _, err := s.store.Observe(t.Context(), record.Seen{Node: s.name, Snapshots: []record.SnapshotSeen{{ID: rows[0].ID, Status: status}}}); err != nil {
		t.Fatal(err)
	}
	return rows[0].ID
}

// TestSnapshotsCountInTheQuota takes snapshots until the project's disk is full. What one leaves when it's deleted counts with the other as soon as the node says so.
func TestSnapshotsCountInTheQuota(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	r := newRoom(t, s, record.Quota{DiskBytes: number(64*mib + 10)})
	n := r.newSandbox()
	must(t)(r.store.CreateSandbox(t.Context(), n, roomy))
	s.observe(t, n.Route, space.ExecutionRunning)
	take := func() error {
		_, err := r.verbs.Take(t.Context(), r.project, n.Route.Sandbox, record.SnapshotDisk, "", record.Request{})
		return err
	}
	used := func(when string, want int64) {
		t.Helper()
		if got := r.used(t).DiskBytes - 64*mib; got != want {
			t.Errorf("%s: %d bytes are used, want %d", when, got, want)
		}
	}
	if err := take(); err != nil {
		t.Fatal(err)
	}
	first := r.taken(t, n.Route.Sandbox, 8)
	if err := take(); err != nil {
		t.Fatalf("below the quota: %v", err)
	}
	r.taken(t, n.Route.Sandbox, 2)
	used("two", 10)
	if err := take(); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("at the quota: %v", err)
	}
	if err := r.verbs.DeleteSnapshot(t.Context(), r.project, first); err != nil {
		t.Fatal(err)
	}
	used("one deleted", 2)
	r.taken(t, n.Route.Sandbox, 10)
	used("what it left", 10)
	if err := take(); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("at the quota again: %v", err)
	}
}

// TestADamagedSnapshotIsNoRecoveryPoint, until its node says that it's well: nothing else of it changes meanwhile.
func TestADamagedSnapshotIsNoRecoveryPoint(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	n := s.newSandbox()
	id := n.Route.Sandbox
	must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
	s.observe(t, n.Route, space.ExecutionRunning)
	var ids []string
	for range 2 {
		must(t)(s.verbs.Take(t.Context(), s.project, id, record.SnapshotFull, "", record.Request{}))
		ids = append(ids, s.taken(t, id, 5))
	}
	whole := known(s.store.Snapshot(t.Context(), s.project, ids[1]))(t)
	for _, x := range []struct {
		err   *space.Error
		state record.SnapshotState
		point string
	}{{space.Errorf(space.CodeSnapshotUnusable, "its memory is damaged"), record.SnapshotDamaged, ids[0]}, {nil, record.SnapshotReady, ids[1]}} {
		wanted := known(s.store.Wanted(t.Context(), s.name))(t)
		for _, w := range wanted.Snapshots {
			if w.ID != ids[1] {
				continue
			}
			w.Recorded.Error = x.err
			if _, err := s.store.Observe(t.Context(), record.Seen{Node: s.name, Snapshots: []record.SnapshotSeen{{ID: w.ID, Status: w.Recorded}}}); err != nil {
				t.Fatal(err)
			}
		}
		n := known(s.store.Snapshot(t.Context(), s.project, ids[1]))(t)
		if n.Status.State != x.state || (n.Status.Error == nil) != (x.err == nil) {
			t.Errorf("it's shown as %+v", n.Status)
		}
		if n.Status.State, n.Status.Error = whole.Status.State, nil; n.Status != whole.Status {
			t.Errorf("it's %+v, and was %+v", n.Status, whole.Status)
		}
		box := known(s.store.Sandbox(t.Context(), s.project, id))(t)
		if box.Recovery == nil || box.Recovery.Snapshot != x.point {
			t.Errorf("%s: the recovery point is %+v, want %s", x.state, box.Recovery, x.point)
		}
	}
}

// known is what was read.
func known[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
