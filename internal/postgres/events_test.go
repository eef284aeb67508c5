package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// happen writes an event in a transaction of its own, which is left open.
func (s *scene) happen(t *testing.T, what string) pgx.Tx {
	t.Helper()
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO events (project, type, key, data) VALUES ($1, 'key.created', $2, '{}')", s.project, what); err != nil {
		t.Fatal(err)
	}
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// follow reads what comes after a number, and returns it with the next number.
func (s *scene) follow(t *testing.T, after int64) ([]string, int64) {
	t.Helper()
	rows, err := s.store.Events(t.Context(), s.project, record.EventFilter{After: after, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range rows {
		if e.Number <= after {
			t.Fatalf("number %d after %d", e.Number, after)
		}
		after = e.Number
		out = append(out, e.Key)
	}
	return out, after
}

func (s *scene) newest(t *testing.T) int64 {
	t.Helper()
	b, err := s.store.EventBounds(t.Context(), s.project)
	if err != nil {
		t.Fatal(err)
	}
	return b.Newest
}

// TestEventsThatCommitInAnotherOrder writes one event before another and commits it after: a reader that saw the second gets the first.
func TestEventsThatCommitInAnotherOrder(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	begin := s.newest(t)
	first, second := s.happen(t, "first"), s.happen(t, "second")
	commit(t, second)
	seen, after := s.follow(t, begin)
	if !slices.Equal(seen, []string{"second"}) {
		t.Errorf("seen %v", seen)
	}
	commit(t, first)
	if seen, _ := s.follow(t, after); !slices.Equal(seen, []string{"first"}) {
		t.Errorf("then %v", seen)
	}
}

// TestReadersMissNothing has writers that commit in whatever order, transactions that are given up, and readers that follow and number at
// the same time: each reader gets each event once, in the order of the numbers.
func TestReadersMissNothing(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	const writers, each, readers = 6, 40, 3
	begin := s.newest(t)
	done := make(chan struct{})
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for n := range each {
				tx := s.happen(t, fmt.Sprintf("%d/%02d", w, n))
				if n%10 == 9 {
					_ = tx.Rollback(context.WithoutCancel(t.Context())) // it never happened
					continue
				}
				commit(t, tx)
			}
		})
	}
	got := make([][]string, readers)
	for k := range readers {
		reading.Go(func() {
			after := begin
			for last := false; ; {
				var seen []string
				seen, after = s.follow(t, after)
				got[k] = append(got[k], seen...)
				if last {
					return
				}
				select {
				case <-done:
					last = true // what was committed before is read once more
				default:
				}
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	for k := range readers {
		if want := writers * each * 9 / 10; len(got[k]) != want {
			t.Errorf("reader %d got %d events, want %d", k, len(got[k]), want)
		}
		if !slices.Equal(got[k], got[0]) {
			t.Errorf("readers %d and 0 got another order: %s", k, cmp.Diff(got[0], got[k]))
		}
		for w := range writers { // what one writer did is seen in its order
			mine := slices.DeleteFunc(slices.Clone(got[k]), func(e string) bool { return !strings.HasPrefix(e, fmt.Sprintf("%d/", w)) })
			if !slices.IsSorted(mine) {
				t.Errorf("reader %d got in another order what writer %d did: %v", k, w, mine)
			}
		}
	}
}

// TestWhatHappensIsWritten follows a sandbox, a template and a key through their lives.
func TestWhatHappensIsWritten(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	lost := s.newSandbox()
	must(t)(s.store.CreateSandbox(t.Context(), lost, roomy))
	s.observe(t, lost.Route, space.ExecutionRunning)
	s.observe(t, lost.Route, space.ExecutionRunning) // nothing new
	s.observe(t, lost.Route, space.ExecutionLost)
	if _, err := s.verbs.Delete(t.Context(), s.project, lost.Route.Sandbox); err != nil {
		t.Fatal(err)
	}
	s.observe(t, lost.Route, space.ExecutionGone)
	rows, err := s.store.Events(t.Context(), s.project, record.EventFilter{Sandbox: lost.Route.Sandbox, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []record.EventType
	for _, e := range rows {
		got = append(got, e.Type)
	}
	want := []record.EventType{record.EventSandboxCreated, record.EventSandboxRunning, record.EventSandboxLost, record.EventSandboxDeleted}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if rows[0].Operation != lost.Operation || rows[2].Data["code"] != string(space.CodeExecutionLost) || rows[2].Data["execution"] != lost.Route.Execution {
		t.Errorf("%+v", rows)
	}
}

// TestAnnouncedAfterTheCommit holds that who is told of an event finds it, and that nobody is told of what didn't happen.
func TestAnnouncedAfterTheCommit(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	told := 0
	s.store.Announce(func(project string) {
		told++
		if project != s.project {
			t.Errorf("told of project %s", project)
		}
	})
	n := s.newSandbox()
	must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
	s.observe(t, n.Route, space.ExecutionRunning)
	if told != 2 {
		t.Errorf("told %d times of 2 events", told)
	}
	n.Operation = s.box.Operation // taken: the transaction fails at its last statement
	n.Route.Sandbox, n.Route.Execution = space.NewID(space.PrefixSandbox), space.NewID(space.PrefixExecution)
	if _, err := s.store.CreateSandbox(t.Context(), n, roomy); err == nil || told != 2 {
		t.Errorf("%v, told %d times", err, told)
	}
}

// TestPrunedEvents ages some events and keeps others; the bounds tell up to where they're gone.
func TestPrunedEvents(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	newest := s.newest(t)
	if _, err := s.pool.Exec(t.Context(), "UPDATE events SET at = at - interval '31 days' WHERE number < $1", newest); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := s.store.EventBounds(t.Context(), s.project)
	if err != nil || b.Newest != newest || b.Pruned != newest-1 {
		t.Errorf("bounds %+v, %v, want up to %d pruned", b, err, newest-1)
	}
	if rows, err := s.store.Events(t.Context(), s.project, record.EventFilter{Limit: 10}); err != nil || len(rows) != 1 || rows[0].Number != newest {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestExcessEventsArePruned writes more events than a project may keep; another project's stay.
func TestExcessEventsArePruned(t *testing.T) {
	pool := pgtest.Pool(t)
	loud, quiet := newScene(t, pool), newScene(t, pool)
	for _, insert := range []string{ // most of them have been read, and so numbered, before
		"INSERT INTO events (project, type, data, number) SELECT $1, 'sandbox.updated', '{}', nextval('event_numbers') FROM generate_series(1, 100000)",
		"INSERT INTO events (project, type, data) SELECT $1, 'sandbox.updated', '{}' FROM generate_series(1, 400)",
	} {
		if _, err := pool.Exec(t.Context(), insert, loud.project); err != nil {
			t.Fatal(err)
		}
	}
	before := loud.count(t, "SELECT count(*) FROM events WHERE project = '"+quiet.project+"'")
	for n := int64(1); n > 0; {
		var err error
		if n, err = loud.store.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := loud.count(t, "SELECT count(*) FROM events WHERE project = '"+loud.project+"'"); got != 100_000 {
		t.Errorf("%d events are kept", got)
	}
	if got := loud.count(t, "SELECT count(*) FROM events WHERE project = '"+quiet.project+"'"); got != before {
		t.Errorf("%d of %d events of another project are kept", got, before)
	}
}
