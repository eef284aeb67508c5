package postgres_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
	"github.com/space-platform/space/internal/pgtest"
)

// roll sets how the scene's sandbox takes snapshots of itself.
func (s *scene) roll(t testing.TB, r *record.Rolling) {
	t.Helper()
	change := func(l record.Lifecycle) record.Lifecycle { l.Rolling = r; return l }
	if err := s.store.UpdateSandbox(context.Background(), s.project, s.box.Route.Sandbox, record.Update{Change: change}); err != nil {
		t.Fatal(err)
	}
}

// TestToRollIsWhatIsDue makes series of snapshots at random: what the store finds due is what retention says, of the same snapshots.
func TestToRollIsWhatIsDue(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	box := s.sandbox(t, s.box.Route.Sandbox)
	rapid.Check(t, func(rt *rapid.T) {
		if _, err := s.pool.Exec(t.Context(), "DELETE FROM snapshots"); err != nil {
			rt.Fatal(err)
		}
		r := record.Rolling{
			DiskEvery: time.Duration(rapid.IntRange(0, 4).Draw(rt, "disk")) * time.Minute, FullEvery: time.Duration(rapid.IntRange(0, 4).Draw(rt, "full")) * time.Minute,
			Keep: retention.DefaultTiers(),
		}
		s.roll(t, &r)
		last, newest := record.Rolled{FullAt: box.CreatedAt, DiskAt: box.CreatedAt}, map[string]time.Time{}
		making := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(rt, "snapshots") {
			at := box.CreatedAt.Add(time.Duration(rapid.IntRange(1, 600).Draw(rt, "at")) * time.Second)
			kind, state := rapid.SampledFrom([]string{"disk", "full"}).Draw(rt, "kind"), rapid.SampledFrom([]string{"", "making", "failed", "ready", "gone"}).Draw(rt, "state")
			purpose := rapid.SampledFrom([]string{"rolling", "rolling", "asked"}).Draw(rt, "purpose")
			s.insert(rt, at, kind, purpose, state)
			if purpose != "rolling" || !at.After(newest[kind]) {
				continue
			}
			newest[kind], making[kind] = at, state == "" || state == "making"
			if kind == "full" && at.After(last.FullAt) {
				last.FullAt = at
			}
			if at.After(last.DiskAt) {
				last.DiskAt = at
			}
		}
		last.Making = making["disk"] || making["full"]
		now := box.CreatedAt.Add(time.Duration(rapid.IntRange(0, 900).Draw(rt, "now")) * time.Second)
		rows, err := s.store.ToRoll(t.Context(), now, "", 10)
		if _, due := retention.Due(now, r, last); err != nil || due != (len(rows) == 1) {
			rt.Fatalf("%+v after %+v: due %v, found %+v, %v", r, last, due, rows, err)
		}
	})
}

// insert writes a snapshot of the scene's sandbox, with what its node said of it.
func (s *scene) insert(t rapid.TB, at time.Time, kind, purpose, state string) {
	id, r := space.NewID(space.PrefixSnapshot), s.box.Route
	_, err := s.pool.Exec(context.Background(), `INSERT INTO snapshots
		(id, project, sandbox, execution, epoch, placement_kind, node, pod_uid, template, kind, purpose, name, vcpus, memory_bytes, disk_bytes, created_at, gone_at)
		VALUES ($1, $2, $3, $4, 1, 'node', $5, '', $6, $7, $8, '', 1, 1, 1, $9, CASE WHEN $10 = 'gone' THEN now() END)`,
		id, s.project, r.Sandbox, r.Execution, s.name, s.tpl.ID, kind, purpose, at, state)
	if err == nil && state != "" {
		_, err = s.pool.Exec(context.Background(), `INSERT INTO snapshot_status (snapshot, state, error_code, error_message, taken_at, digest)
			VALUES ($1, $2, CASE WHEN $2 = 'failed' THEN 'internal' END, CASE WHEN $2 = 'failed' THEN 'x' END, now(), 'sha256:x')`, id, state)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOneOfSeveralProcessesRolls has several find a sandbox due at once: it takes one snapshot.
func TestOneOfSeveralProcessesRolls(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	s.roll(t, &record.Rolling{FullEvery: time.Minute, Keep: retention.DefaultTiers()})
	id := s.box.Route.Sandbox
	if _, err := s.pool.Exec(t.Context(), "UPDATE sandboxes SET created_at = created_at - interval '1 hour'"); err != nil {
		t.Fatal(err)
	}
	var taken atomic.Int32
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			took, err := s.verbs.Roll(context.Background(), s.project, id)
			if err != nil {
				t.Error(err)
			}
			if took {
				taken.Add(1)
			}
		})
	}
	g.Wait()
	if n := s.count(t, "SELECT count(*) FROM snapshots WHERE purpose = 'rolling'"); n != 1 || taken.Load() != 1 {
		t.Errorf("%d snapshots, %d say that they took one", n, taken.Load())
	}
}
