package postgres_test

import (
	"testing"

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
