package postgres_test

import (
	"slices"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// TestDeletionsShareATransaction has sandboxes deleted while another one's deletion waits for a lock: those that there are go in one transaction, each with an
// operation of its own, and one of which there's none is refused alone. Who deletes the same one at the same time gets the same operation.
func TestDeletionsShareATransaction(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	var boxes []record.NewSandbox
	for range 5 {
		n := s.newSandbox()
		must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
		boxes = append(boxes, n)
	}
	s.observe(t, boxes[0].Route, space.ExecutionRunning) // the others' creations are under way
	held, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Rollback(t.Context())
	if _, err := held.Exec(t.Context(), "SELECT FROM sandboxes WHERE id = $1 FOR UPDATE", s.box.Route.Sandbox); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		sandbox, operation string
		err                error
	}
	answers := make(chan answer)
	ask := func(project, id string, waiting int) {
		t.Helper()
		go func() {
			operation, err := s.verbs.Delete(t.Context(), project, id)
			answers <- answer{id, operation, err}
		}()
		for deadline := time.Now().Add(time.Minute); s.store.WaitingDeletions() != waiting; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d wait, want %d", s.store.WaitingDeletions(), waiting)
			}
		}
	}
	ask(s.project, s.box.Route.Sandbox, 0)
	s.blocked(t)
	for i, b := range boxes {
		ask(s.project, b.Route.Sandbox, i+1)
	}
	ask(s.project, boxes[0].Route.Sandbox, 6)
	ask(s.project, space.NewID(space.PrefixSandbox), 7)
	ask(space.NewID(space.PrefixProject), boxes[1].Route.Sandbox, 8)
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	operations := map[string][]string{}
	refused := 0
	for range 9 {
		if a := <-answers; space.CodeOf(a.err) == space.CodeNotFound {
			refused++
		} else if a.err != nil {
			t.Error(a.err)
		} else {
			operations[a.sandbox] = append(operations[a.sandbox], a.operation)
		}
	}
	var at []time.Time
	for i, b := range boxes {
		got := slices.Compact(operations[b.Route.Sandbox])
		if len(got) != 1 {
			t.Fatalf("sandbox %d is deleted by %v", i, got)
		}
		o := s.operation(t, got[0])
		if o.Kind != record.DeleteSandbox || o.Sandbox != b.Route.Sandbox || o.Ended() {
			t.Errorf("operation %+v of sandbox %s", o, b.Route.Sandbox)
		}
		if at = append(at, o.CreatedAt); !o.CreatedAt.Equal(at[0]) {
			t.Errorf("sandbox %d was deleted in another transaction than the first one", i)
		}
		creation := s.operation(t, b.Operation)
		if want := i > 0; (creation.Error != nil) != want || !creation.Ended() {
			t.Errorf("its creation %+v failed: %t, want %t", creation, !want, want)
		}
	}
	if refused != 2 {
		t.Errorf("%d were refused, want the one that doesn't exist and the one of another project", refused)
	}
	s.audit(t)
}

// blocked returns when a transaction waits for another one's lock.
func (s *scene) blocked(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.count(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for a lock")
		}
	}
}

// TestWhatIsAskedAllTheTimeIsPlannedOnce creates and deletes sandboxes. PostgreSQL tries five plans of its own for what is asked, and then has to keep one.
func TestWhatIsAskedAllTheTimeIsPlannedOnce(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	for range 30 {
		n := s.newSandbox()
		creation := must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
		s.observe(t, n.Route, space.ExecutionRunning)
		s.operation(t, creation)
		s.sandbox(t, n.Route.Sandbox)
		must(t)(s.verbs.Delete(t.Context(), s.project, n.Route.Sandbox))
		s.observe(t, n.Route, space.ExecutionGone)
	}
	most := 0
	for _, c := range s.pool.AcquireAllIdle(t.Context()) {
		defer c.Release()
		rows, err := c.Query(t.Context(), "SELECT statement, custom_plans, generic_plans + custom_plans FROM pg_prepared_statements")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var statement string
			var custom, asked int
			if err := rows.Scan(&statement, &custom, &asked); err != nil {
				t.Fatal(err)
			}
			if most = max(most, asked); asked > 10 && custom > 5 {
				t.Errorf("planned %d times of %d: %s", custom, asked, statement)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if most <= 10 {
		t.Errorf("nothing was asked more than %d times over one connection", most)
	}
}
