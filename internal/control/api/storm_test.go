package api_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/wake"
)

// storm is many who do everything to a few sandboxes at once, through two control planes on one database, while machines crash, snapshots fail and the clock moves.
type storm struct {
	*rig
	project string
	planes  []*sandboxes.Sandboxes
	garbage *retention.Collector

	mu    sync.Mutex // guards what follows
	boxes []string   // all that there ever were
	wrong []string   // what must never be, and was
}

func newStorm(t *testing.T) *storm {
	r := newRig(t)
	r.template(t)
	s := &storm{rig: r, garbage: retention.NewCollector(r.store, r.bell)}
	s.planes = []*sandboxes.Sandboxes{r.boxes, sandboxes.New(r.store, nil, new(wake.Bell))}
	r.node.change(func() {
		r.node.start, r.node.stop, r.node.take, r.node.pause = s.start, s.stopped, s.take, s.pause
	})
	for range 4 {
		s.boxes = append(s.boxes, r.sandbox(t).Id)
	}
	if err := r.pool.QueryRow(t.Context(), "SELECT project FROM sandboxes LIMIT 1").Scan(&s.project); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// How the node's machines behave; its mu is held. What is there stays what it is, and one in ten fails.

func live(state space.ExecutionState) bool {
	return state == space.ExecutionRunning || state == space.ExecutionPaused || state == space.ExecutionPending
}

func (s *storm) start(r space.Route) (space.ExecutionState, *space.Error) {
	if e, there := s.node.executions[r]; there {
		return e.State, e.Error
	}
	for other, e := range s.node.executions {
		if other.Sandbox == r.Sandbox && other.Epoch >= r.Epoch && live(e.State) {
			s.fault("sandbox %s: epoch %d is ordered while %d is %s", r.Sandbox, r.Epoch, other.Epoch, e.State)
		}
	}
	if r.Epoch > 1 && rand.IntN(10) == 0 {
		return space.ExecutionFailed, space.Errorf(space.CodeSnapshotUnusable, "it can't be loaded")
	}
	return space.ExecutionRunning, nil
}

func (s *storm) stopped(r space.Route) (space.ExecutionState, *space.Error) {
	if e, there := s.node.executions[r]; there && !live(e.State) {
		return e.State, e.Error
	}
	return space.ExecutionStopped, nil
}

func (s *storm) take(o nodesync.Order) record.SnapshotStatus {
	if old, there := s.node.snapshots[o.Snapshot]; there {
		return old
	}
	e := s.node.executions[o.Route]
	possible := e.State == space.ExecutionRunning || e.State == space.ExecutionPaused || e.State == space.ExecutionStopped && o.Disk
	if !possible || rand.IntN(10) == 0 {
		return record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeCapacity, "the disk is full")}
	}
	return record.SnapshotStatus{State: record.SnapshotReady, Digest: digestOf(o.Snapshot), At: time.Now(), Bytes: 5 << 20}
}

func (s *storm) pause(o nodesync.Order) *space.Error {
	if e := s.node.executions[o.Route]; e.State != space.ExecutionRunning && e.State != space.ExecutionPaused || rand.IntN(10) == 0 {
		return space.Errorf(space.CodeUnavailable, "the machine doesn't listen")
	}
	return nil
}

// legal are the answers that a verb may get from a sandbox that does something else by then.
var legal = []space.Code{
	"", space.CodeConflict, space.CodeNotFound, space.CodeCapacity, space.CodeExecutionLost, space.CodeSnapshotUnusable, space.CodeInvalid, space.CodeQuotaExceeded,
}

// act does something at random to one of the sandboxes.
func (s *storm) act(ctx context.Context, rnd *rand.Rand) {
	s.mu.Lock()
	id := s.boxes[rnd.IntN(len(s.boxes))]
	s.mu.Unlock()
	b, p := s.planes[rnd.IntN(len(s.planes))], s.project
	verbs := []func() error{
		func() error { _, err := b.Pause(ctx, p, id); return err },
		func() error { _, err := b.Resume(ctx, p, id); return err },
		func() error { _, err := b.Suspend(ctx, p, id); return err },
		func() error { _, err := b.Restore(ctx, p, id, rnd.IntN(4) == 0); return err },
		func() error { _, err := b.Stop(ctx, p, id, time.Second); return err },
		func() error { _, err := b.Start(ctx, p, id); return err },
		func() error { _, err := b.Wake(ctx, p, id); return err },
		func() error { _, err := b.Wake(ctx, p, id); return err },
		func() error { _, err := b.Take(ctx, p, id, record.SnapshotFull, "", record.Request{}); return err },
		func() error { _, err := b.Rollback(ctx, p, id, "", false, record.Request{}); return err },
		func() error { _, err := b.Fork(ctx, p, id, sandboxes.Fork{Count: 2}, record.Request{}); return err },
		func() error { return s.removeSnapshot(ctx, b, id, rnd) },
		func() error {
			if rnd.IntN(4) > 0 {
				return nil
			}
			_, err := b.Delete(ctx, p, id)
			return err
		},
		func() error {
			if rnd.IntN(3) == 0 {
				s.crash(id)
			}
			return nil
		},
		func() error { return s.moveClock(ctx, b, id, rnd) },
		func() error { _, err := s.garbage.Collect(ctx, ""); return err },
		func() error { return s.adopt(ctx) },
	}
	if err := verbs[rnd.IntN(len(verbs))](); !slices.Contains(legal, space.CodeOf(err)) {
		s.fault("sandbox %s: %v", id, err)
	}
}

// crash has the machines of a sandbox be gone.
func (s *storm) crash(id string) {
	s.node.change(func() {
		for r, e := range s.node.executions {
			if r.Sandbox == id && live(e.State) {
				s.node.executions[r] = nodesync.ExecutionReport{Route: r, State: space.ExecutionLost, Error: space.Errorf(space.CodeExecutionLost, "it crashed"), Since: time.Now()}
			}
		}
	})
}

func (s *storm) removeSnapshot(ctx context.Context, b *sandboxes.Sandboxes, id string, rnd *rand.Rand) error {
	rows, err := s.store.Snapshots(ctx, s.project, id, record.Position{}, 5)
	if err != nil || len(rows) == 0 {
		return err
	}
	return b.DeleteSnapshot(ctx, s.project, rows[rnd.IntN(len(rows))].ID)
}

// moveClock has a sandbox be idle for long, its deadline pass, or a snapshot of itself be due, and does what controllers do about it.
func (s *storm) moveClock(ctx context.Context, b *sandboxes.Sandboxes, id string, rnd *rand.Rand) error {
	moves := []string{
		"UPDATE sandboxes SET active_at = now() - interval '7 hours', idle_after_seconds = 3600, idle_action = 'suspend' WHERE id = $1 AND desired <> 'deleted'",
		"UPDATE sandboxes SET expires_at = now() - interval '1 second', on_expiry = 'suspend' WHERE id = $1 AND desired <> 'deleted'",
		`UPDATE sandboxes SET rolling = '{"full_every":60000000000,"keep":[]}', created_at = created_at - interval '1 hour' WHERE id = $1 AND desired <> 'deleted'`,
		"UPDATE operations SET ended_at = ended_at - interval '1 hour' WHERE sandbox = $1 AND ended_at IS NOT NULL",
	}
	if _, err := s.pool.Exec(ctx, moves[rnd.IntN(len(moves))], id); err != nil {
		return err
	}
	idle, err := s.store.Idling(ctx, time.Now(), record.Idling{}, 10)
	for _, i := range idle {
		if _, err := b.EndIdle(ctx, i); !slices.Contains(legal, space.CodeOf(err)) {
			return err
		}
	}
	over, eerr := s.store.Expiring(ctx, record.Expiring{}, 10)
	for _, e := range over {
		if _, err := b.Expire(ctx, e); !slices.Contains(legal, space.CodeOf(err)) {
			return err
		}
	}
	due, derr := s.store.ToRoll(ctx, time.Now(), "", 10)
	for _, o := range due {
		if _, err := b.Roll(ctx, o.Project, o.Sandbox); !slices.Contains(legal, space.CodeOf(err)) {
			return err
		}
	}
	paused, perr := s.store.Paused(ctx, nodeName, 1)
	for _, o := range paused {
		if _, err := b.Relieve(ctx, o.Project, o.Sandbox); !slices.Contains(legal, space.CodeOf(err)) {
			return err
		}
	}
	for _, err := range []error{err, eerr, derr, perr} {
		if err != nil {
			return err
		}
	}
	return nil
}

// adopt has forks be among the sandboxes to which something is done.
func (s *storm) adopt(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, "SELECT id FROM sandboxes WHERE desired <> 'deleted' LIMIT 12")
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		all = append(all, id)
	}
	if len(all) > 0 {
		s.mu.Lock()
		s.boxes = all
		s.mu.Unlock()
	}
	return rows.Err()
}

// stormLaws are what must hold of the records once nobody does anything any more; each counts its breaches.
var stormLaws = map[string]string{
	"nothing is under way":                  `SELECT count(*) FROM operations WHERE status = 'running'`,
	"an epoch is of one execution":          `SELECT count(*) FROM (SELECT FROM executions GROUP BY sandbox, epoch HAVING count(*) > 1) x`,
	"the current execution has run or may":  `SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution LEFT JOIN execution_status st ON st.execution = e.id WHERE s.desired <> 'deleted' AND st.state IS NULL`,
	"what holds a suspended one is there":   `SELECT count(*) FROM sandboxes s JOIN execution_status st ON st.execution = s.execution LEFT JOIN snapshots n ON n.id = st.snapshot WHERE s.desired <> 'deleted' AND st.state = 'suspended' AND (n.id IS NULL OR n.deleted_at IS NOT NULL)`,
	"nobody's snapshot is taken away":       `SELECT count(*) FROM execution_status WHERE state = 'lost' AND snapshot IS NOT NULL`,
	"a deleted sandbox has no execution":    `SELECT count(*) FROM sandboxes s JOIN executions e ON e.sandbox = s.id WHERE s.deleted_at IS NOT NULL AND e.gone_at IS NULL`,
	"a fork ended with the last child":      `SELECT count(*) FROM operations o JOIN operations c ON c.part_of = o.id WHERE o.status <> 'running' AND c.status = 'running'`,
	"an operation that failed has a reason": `SELECT count(*) FROM operations WHERE status = 'failed' AND error_code IS NULL`,
}

// breaches is what doesn't hold at the moment.
func (s *storm) breaches(ctx context.Context) (out []string) {
	for law, query := range stormLaws {
		var n int
		if err := s.pool.QueryRow(ctx, query).Scan(&n); err != nil || n > 0 {
			out = append(out, fmt.Sprintf("%d breaches of the law that %s, %v", n, law, err))
		}
	}
	ids := map[string]bool{}
	rows, err := s.pool.Query(ctx, "SELECT id FROM sandboxes WHERE deleted_at IS NULL")
	if err != nil {
		return append(out, err.Error())
	}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err == nil {
			ids[id] = true
		}
	}
	rows.Close()
	for id := range ids {
		box, err := s.store.Sandbox(ctx, s.project, id)
		if err != nil {
			return append(out, err.Error())
		}
		if why := s.differs(box); why != "" {
			out = append(out, fmt.Sprintf("sandbox %s is %s, and %s", id, sandboxes.State(box), why))
		}
	}
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	for r := range s.node.executions {
		if !ids[r.Sandbox] {
			out = append(out, fmt.Sprintf("the node has execution %s of a sandbox that is gone", r.Execution))
		}
	}
	for id := range s.node.snapshots {
		var wanted bool
		if err := s.pool.QueryRow(ctx, "SELECT deleted_at IS NULL FROM snapshots WHERE id = $1", id).Scan(&wanted); err != nil || !wanted {
			out = append(out, fmt.Sprintf("the node has snapshot %s, which nobody wants, %v", id, err))
		}
	}
	return out
}

// differs says how what a node has of a sandbox isn't what is said of it.
func (s *storm) differs(box record.Sandbox) string {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	var alive []string
	for r, e := range s.node.executions {
		if r.Sandbox == box.ID && live(e.State) {
			alive = append(alive, fmt.Sprintf("%s %s", r.Execution, e.State))
		}
	}
	var want []string
	switch state := sandboxes.State(box); state {
	case space.StateRunning, space.StatePaused:
		want = []string{fmt.Sprintf("%s %s", box.Execution.Route.Execution, state)}
	case space.StateSuspended:
		if n, there := s.node.snapshots[box.Execution.HeldBy]; !there || n.State != record.SnapshotReady {
			return "the node hasn't its snapshot"
		}
	case space.StateStopped, space.StateLost, space.StateFailed:
	default:
		return "that doesn't end"
	}
	if !slices.Equal(alive, want) {
		return fmt.Sprintf("the node has %v", alive)
	}
	return ""
}

// tally fails if the storm wasn't one: each verb must have been done, and some must have failed.
func (s *storm) tally(t *testing.T) {
	t.Helper()
	var kinds, failed int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(DISTINCT kind), count(*) FILTER (WHERE status = 'failed') FROM operations").Scan(&kinds, &failed); err != nil {
		t.Fatal(err)
	}
	if kinds < 9 || failed == 0 {
		t.Errorf("%d kinds of operations were begun, and %d failed: that's no storm", kinds, failed)
	}
}

// TestStorm does everything to a few sandboxes at once. When it's over all comes to rest, and what the records say is what the node has.
func TestStorm(t *testing.T) {
	const goroutines, steps = 6, 50
	s := newStorm(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var g sync.WaitGroup
	for n := range goroutines {
		g.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			for range steps {
				s.act(t.Context(), rnd)
			}
		})
	}
	g.Wait()
	s.tally(t)
	deadline := time.Now().Add(time.Minute)
	var left []string
	for left = s.breaches(t.Context()); len(left) > 0 && time.Now().Before(deadline); left = s.breaches(t.Context()) {
		time.Sleep(50 * time.Millisecond) // the node is at work
	}
	for _, why := range append(left, s.wrong...) {
		t.Error(why)
	}
}
