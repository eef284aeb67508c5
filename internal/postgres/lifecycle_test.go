package postgres_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/placement"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

func (s *scene) sandbox(t *testing.T, id string) record.Sandbox {
	t.Helper()
	out, err := s.store.Sandbox(t.Context(), s.project, id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *scene) operation(t *testing.T, id string) record.Operation {
	t.Helper()
	out, err := s.store.Operation(t.Context(), s.project, id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wants is what the node should do about each of a sandbox's executions, by epoch.
func (s *scene) wants(t *testing.T, sandbox string) map[uint64]record.Want {
	t.Helper()
	w, err := s.store.Wanted(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint64]record.Want{}
	for _, e := range w.Executions {
		if e.Route.Sandbox == sandbox {
			out[e.Route.Epoch] = e.Want
		}
	}
	return out
}

// TestStopAndStart follows a sandbox through its verbs: what is wanted of each execution, how the operations end, what is shown.
func TestStopAndStart(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id := s.box.Route.Sandbox
	step := func(doing string, state space.State, wants map[uint64]record.Want) record.Sandbox {
		t.Helper()
		box := s.sandbox(t, id)
		if got := sandboxes.State(box); got != state {
			t.Errorf("%s: %s, want %s", doing, got, state)
		}
		if diff := cmp.Diff(wants, s.wants(t, id)); diff != "" {
			t.Errorf("%s: %s", doing, diff)
		}
		s.audit(t)
		return box
	}
	ended := func(id string, want record.OperationStatus) {
		t.Helper()
		if o := s.operation(t, id); o.Status != want {
			t.Errorf("operation %+v, want %s", o, want)
		}
	}
	stop := must(t)(s.verbs.Stop(t.Context(), s.project, id, time.Second))
	step("stop", space.StateStopping, map[uint64]record.Want{1: record.WantStopped})
	if again := must(t)(s.verbs.Stop(t.Context(), s.project, id, time.Second)); again != stop {
		t.Errorf("a second stop is operation %s, want %s", again, stop)
	}
	if _, err := s.verbs.Start(t.Context(), s.project, id); space.CodeOf(err) != space.CodeConflict || !strings.Contains(err.Error(), stop) {
		t.Errorf("start while it stops: %v", err)
	}
	if got := s.observe(t, s.box.Route, space.ExecutionStopped); !slices.Equal(got, []string{stop}) {
		t.Errorf("stopped ended %v", got)
	}
	ended(stop, record.OperationSucceeded)
	step("stopped", space.StateStopped, map[uint64]record.Want{1: record.WantStopped})
	if again := must(t)(s.verbs.Stop(t.Context(), s.project, id, time.Second)); again != stop {
		t.Errorf("stop of a stopped one is operation %s, want %s", again, stop)
	}

	start := must(t)(s.verbs.Start(t.Context(), s.project, id))
	box := step("start", space.StateStarting, map[uint64]record.Want{1: record.WantDisk, 2: record.WantRunning})
	if box.Execution.DiskOf != s.box.Route.Execution || box.Execution.Route.Epoch != 2 {
		t.Errorf("started as %+v", box.Execution)
	}
	s.observe(t, box.Execution.Route, space.ExecutionFailed)
	ended(start, record.OperationFailed)
	step("start failed", space.StateStopped, map[uint64]record.Want{1: record.WantDisk, 2: record.WantRunning})

	second := must(t)(s.verbs.Start(t.Context(), s.project, id))
	box = step("start again", space.StateStarting, map[uint64]record.Want{1: record.WantDisk, 2: record.WantGone, 3: record.WantRunning})
	s.observe(t, box.Execution.Route, space.ExecutionRunning)
	ended(second, record.OperationSucceeded)
	step("started", space.StateRunning, map[uint64]record.Want{1: record.WantGone, 2: record.WantGone, 3: record.WantRunning})
	if again := must(t)(s.verbs.Start(t.Context(), s.project, id)); again != second {
		t.Errorf("start of a running one is operation %s, want %s", again, second)
	}
	if ended := s.observe(t, s.box.Route, space.ExecutionGone); len(ended) > 0 {
		t.Errorf("the end of an old execution ended %v", ended)
	}

	s.observe(t, box.Execution.Route, space.ExecutionLost)
	third := must(t)(s.verbs.Start(t.Context(), s.project, id))
	box = step("start of a lost one", space.StateStarting, map[uint64]record.Want{2: record.WantGone, 3: record.WantDisk, 4: record.WantRunning})
	deletion := must(t)(s.verbs.Delete(t.Context(), s.project, id))
	ended(third, record.OperationFailed)
	if o := s.operation(t, third); o.Error.Code != space.CodeConflict || !strings.Contains(o.Error.Message, deletion) {
		t.Errorf("the superseded start: %+v", o.Error)
	}
	step("delete", space.StateDeleting, map[uint64]record.Want{2: record.WantGone, 3: record.WantGone, 4: record.WantGone})
	for _, r := range s.routes(t, id) {
		s.observe(t, r, space.ExecutionGone)
	}
	ended(deletion, record.OperationSucceeded)
	step("deleted", space.StateDeleted, map[uint64]record.Want{})
	if again := must(t)(s.verbs.Delete(t.Context(), s.project, id)); again != deletion {
		t.Errorf("delete of a deleted one is operation %s, want %s", again, deletion)
	}
}

// routes are those of a sandbox's executions that aren't gone, the newest first.
func (s *scene) routes(t *testing.T, sandbox string) []space.Route {
	t.Helper()
	w, err := s.store.Wanted(t.Context(), s.name)
	if err != nil {
		t.Fatal(err)
	}
	var out []space.Route
	for _, e := range slices.Backward(w.Executions) {
		if e.Route.Sandbox == sandbox {
			out = append(out, e.Route)
		}
	}
	return out
}

// TestDeletedWhenAllIsGone has the current execution go first: the sandbox isn't deleted before the others are gone too.
func TestDeletedWhenAllIsGone(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id := s.box.Route.Sandbox
	s.observe(t, s.box.Route, space.ExecutionLost)
	must(t)(s.verbs.Start(t.Context(), s.project, id))
	deletion := must(t)(s.verbs.Delete(t.Context(), s.project, id))
	routes := s.routes(t, id)
	if len(routes) != 2 || routes[0].Epoch != 2 {
		t.Fatalf("%v", routes)
	}
	if ended := s.observe(t, routes[0], space.ExecutionGone); len(ended) > 0 {
		t.Errorf("the current one's end ended %v", ended)
	}
	filter := func(state space.State) int {
		rows, _, err := s.verbs.List(t.Context(), s.project, sandboxes.Filter{States: []space.State{state}}, record.Position{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	if sandboxes.State(s.sandbox(t, id)) != space.StateDeleting || filter(space.StateDeleting) != 1 || filter(space.StateDeleted) != 0 {
		t.Error("deleted before all of it was gone")
	}
	if ended := s.observe(t, routes[1], space.ExecutionGone); !slices.Equal(ended, []string{deletion}) {
		t.Errorf("the last one's end ended %v", ended)
	}
	if sandboxes.State(s.sandbox(t, id)) != space.StateDeleted || filter(space.StateDeleted) != 1 {
		t.Error("not deleted when all of it is gone")
	}
}

// TestVerbsAtOnce lets every verb loose at the same moment, several times each, while the node reports: one wins, the others hear of it.
func TestVerbsAtOnce(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id := s.box.Route.Sandbox
	for range 12 {
		var mu sync.Mutex
		made := map[string]bool{}
		var wg sync.WaitGroup
		for range 3 {
			for _, verb := range []func(context.Context, string, string) (string, error){stopNow(s.verbs), s.verbs.Start} {
				wg.Go(func() {
					o, err := verb(t.Context(), s.project, id)
					if err != nil && space.CodeOf(err) != space.CodeConflict {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					made[o] = true
				})
			}
		}
		box := s.sandbox(t, id)
		wg.Go(func() {
			if box.Execution.Observed == space.ExecutionRunning {
				s.observe(t, box.Execution.Route, space.ExecutionLost)
			}
		})
		wg.Wait()
		box = s.sandbox(t, id)
		switch sandboxes.State(box) {
		case space.StateStarting:
			s.observe(t, box.Execution.Route, space.ExecutionRunning)
		case space.StateStopping:
			s.observe(t, box.Execution.Route, space.ExecutionStopped)
		}
		s.audit(t)
		if n := s.count(t, `SELECT count(*) FROM operations WHERE status = 'running'`); n > 0 {
			t.Fatalf("%d operations run when the sandbox is %s", n, sandboxes.State(s.sandbox(t, id)))
		}
	}
}

// TestRoom holds creates and starts at once to what the node has room for.
func TestRoom(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t) // 1 CPU
	fits := func(room record.Room) error { return placement.Check(room, s.tpl.Shape) }
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range placement.CPUOvercommit + 8 {
		wg.Go(func() {
			_, err := s.store.CreateSandbox(t.Context(), s.newSandbox(), fits)
			mu.Lock()
			defer mu.Unlock()
			switch space.CodeOf(err) {
			case "":
				made++
			case space.CodeCapacity:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if want := placement.CPUOvercommit - 1; made != want || refused != 9 { // one runs already
		t.Errorf("made %d, refused %d, want %d and 9", made, refused, want)
	}
	stopped := s.box.Route.Sandbox
	must(t)(s.verbs.Stop(t.Context(), s.project, stopped, time.Second))
	s.observe(t, s.box.Route, space.ExecutionStopped)
	if _, err := s.store.CreateSandbox(t.Context(), s.newSandbox(), fits); err != nil {
		t.Errorf("a stopped one has its place still: %v", err)
	}
	if _, err := s.verbs.Start(t.Context(), s.project, stopped); space.CodeOf(err) != space.CodeCapacity {
		t.Errorf("started on a full node: %v", err)
	}
}

func TestExpiring(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	now := time.Now().Truncate(time.Microsecond)
	make := func(action record.Expiry, in time.Duration, state space.ExecutionState) string {
		n := s.newSandbox()
		n.Lifetime = &record.Lifetime{Deadline: now.Add(in), OnExpiry: action}
		must(t)(s.store.CreateSandbox(t.Context(), n, roomy))
		if state != space.ExecutionPending {
			s.observe(t, n.Route, state)
		}
		return n.Route.Sandbox
	}
	second := make(record.ExpiryDelete, 2*time.Second, space.ExecutionPending)
	first := make(record.ExpiryStop, time.Second, space.ExecutionRunning)
	last := make(record.ExpiryDelete, time.Hour, space.ExecutionLost)
	make(record.ExpiryStop, time.Second, space.ExecutionPending) // can't be stopped yet
	make(record.ExpiryStop, time.Second, space.ExecutionLost)    // nor this one any more
	must(t)(s.verbs.Delete(t.Context(), s.project, make(record.ExpiryDelete, time.Second, space.ExecutionRunning)))
	var got []string
	var after record.Expiring
	for {
		rows, err := s.store.Expiring(t.Context(), after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			got = append(got, r.ID)
			after = r
		}
		if len(rows) < 2 {
			break
		}
	}
	if diff := cmp.Diff([]string{first, second, last}, got); diff != "" {
		t.Error(diff)
	}
	if l := s.sandbox(t, first).Lifetime; l == nil || !l.Deadline.Equal(now.Add(time.Second)) || l.OnExpiry != record.ExpiryStop {
		t.Errorf("lifetime %+v", l)
	}
}

// failSuspend suspends a sandbox, and has its node say that the snapshot couldn't be made.
func (s *scene) failSuspend(t *testing.T, sandbox string) {
	t.Helper()
	must(t)(s.verbs.Suspend(t.Context(), s.project, sandbox))
	s.failSnapshot(t, sandbox)
}

// failSnapshot has the node say that a sandbox's newest snapshot couldn't be made.
func (s *scene) failSnapshot(t *testing.T, sandbox string) {
	t.Helper()
	rows, err := s.store.Snapshots(t.Context(), s.project, sandbox, record.Position{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	status := record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeInternal, "the volume is full")}
	if _, err := s.store.Observe(t.Context(), record.Seen{Node: s.name, Snapshots: []record.SnapshotSeen{{ID: rows[0].ID, Status: status}}}); err != nil {
		t.Fatal(err)
	}
}

// later has all operations have ended so much earlier.
func (s *scene) later(t *testing.T, by time.Duration) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "UPDATE operations SET created_at = created_at - $1::interval, ended_at = ended_at - $1::interval", by); err != nil {
		t.Fatal(err)
	}
}

// TestPaused has one of two paused sandboxes fail to be suspended: the other one's turn comes, and its own again a minute later.
func TestPaused(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	first, second := s.box, s.newSandbox()
	must(t)(s.store.CreateSandbox(t.Context(), second, roomy))
	s.observe(t, second.Route, space.ExecutionRunning)
	for _, n := range []record.NewSandbox{first, second} {
		must(t)(s.verbs.Pause(t.Context(), s.project, n.Route.Sandbox))
		s.observe(t, n.Route, space.ExecutionPaused)
	}
	want := func(when, want string) {
		t.Helper()
		rows, err := s.store.Paused(t.Context(), s.name, 1)
		if err != nil || len(rows) != 1 || rows[0].Sandbox != want {
			t.Errorf("%s: %+v, %v; want %s", when, rows, err, want)
		}
	}
	a, b := first.Route.Sandbox, second.Route.Sandbox
	want("both stand still", a)
	s.failSuspend(t, a)
	if state := sandboxes.State(s.sandbox(t, a)); state != space.StatePaused {
		t.Fatalf("it couldn't be suspended, and is %s", state)
	}
	want("the first couldn't be suspended", b)
	s.later(t, time.Minute)
	want("a minute later", a)
}

// TestExpiryThatFails has a suspend at a deadline fail: the sandbox keeps its deadline, it's tried again a minute later, and the lifetime is over when the
// sandbox is suspended.
func TestExpiryThatFails(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id := s.box.Route.Sandbox
	passed := record.Lifetime{Deadline: time.Now().Add(-time.Second).Truncate(time.Microsecond), OnExpiry: record.ExpirySuspend}
	if err := s.store.UpdateSandbox(t.Context(), s.project, id, record.Update{Lifetime: &passed}); err != nil {
		t.Fatal(err)
	}
	due := func(when string, want bool) {
		t.Helper()
		rows, err := s.store.Expiring(t.Context(), record.Expiring{}, 2)
		if err != nil || (len(rows) == 1 && rows[0].ID == id) != want || !want && len(rows) > 0 {
			t.Errorf("%s due are %+v, %v", when, rows, err)
		}
	}
	expire := func() {
		t.Helper()
		due("before the suspend", true)
		if done, err := s.verbs.Expire(t.Context(), record.Expiring{ID: id, Project: s.project, Lifetime: passed}); err != nil || !done {
			t.Fatalf("%t, %v", done, err)
		}
		due("while it's suspended", false)
	}
	expire()
	s.failSnapshot(t, id)
	box := s.sandbox(t, id)
	if state := sandboxes.State(box); state != space.StateRunning || box.Lifetime == nil || !box.Lifetime.Deadline.Equal(passed.Deadline) {
		t.Fatalf("the suspend failed, and it's %s with the lifetime %+v", state, box.Lifetime)
	}
	due("after the failure", false)
	s.later(t, time.Minute)
	expire()
	s.suspended(t, box.Execution.Route)
	if box = s.sandbox(t, id); sandboxes.State(box) != space.StateSuspended || box.Lifetime != nil {
		t.Errorf("at the end it's %s with the lifetime %+v", sandboxes.State(box), box.Lifetime)
	}
	due("at the end", false)
}

// TestSuspendsThatFailAreTriedLessAndLessOften has the suspends of an idle sandbox fail, as on a volume that is full, and one succeed in the end.
func TestSuspendsThatFailAreTriedLessAndLessOften(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	id := s.box.Route.Sandbox
	exec := func(sql string) {
		t.Helper()
		if _, err := s.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("UPDATE sandboxes SET active_at = now() - interval '7 hours', idle_after_seconds = 3600, idle_action = 'suspend'")
	idle := func() []record.Idling {
		t.Helper()
		rows, err := s.store.Idling(t.Context(), time.Now(), record.Idling{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	suspend := func(when string) {
		t.Helper()
		rows := idle()
		if len(rows) != 1 {
			t.Fatalf("%s idle are %+v", when, rows)
		}
		if done, err := s.verbs.EndIdle(t.Context(), rows[0]); !done || err != nil {
			t.Fatalf("%s: %t, %v", when, done, err)
		}
	}
	suspend("at first")
	for n, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		s.failSnapshot(t, id)
		s.later(t, pause*time.Minute-10*time.Second)
		if rows := idle(); len(rows) != 0 {
			t.Errorf("after failure %d it's tried within %d minutes", n+1, pause)
		}
		s.later(t, 10*time.Second)
		suspend("again")
	}
	box := s.sandbox(t, id)
	s.suspended(t, box.Execution.Route)
	if state := sandboxes.State(s.sandbox(t, id)); state != space.StateSuspended {
		t.Fatalf("it's %s", state)
	}
	s.later(t, time.Minute)
	if n := s.count(t, "SELECT count(*) FROM sandboxes WHERE suspend_again_at(id) IS NOT NULL"); n != 0 {
		t.Error("failures before a success count")
	}
}

// suspended has the node say that an execution is in its sandbox's newest snapshot.
func (s *scene) suspended(t *testing.T, r space.Route) {
	t.Helper()
	rows, err := s.store.Snapshots(t.Context(), s.project, r.Sandbox, record.Position{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	seen := record.Seen{Node: s.name, Executions: []record.ExecutionSeen{{Route: r, State: space.ExecutionSuspended, Since: time.Now(), HeldBy: rows[0].ID}}}
	if _, err := s.store.Observe(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsAreSealed has an environment, stdin and a signing key: nothing of them is in the tables, and nothing opens with another key.
func TestSecretsAreSealed(t *testing.T) {
	pool := pgtest.Pool(t)
	s := newScene(t, pool)
	id := s.box.Route.Sandbox
	if err := s.store.UpdateSandbox(t.Context(), s.project, id, record.Update{Env: map[string]string{"A": "canary-env"}}); err != nil {
		t.Fatal(err)
	}
	session := s.newSession()
	session.Spec.Env, session.Spec.Stdin = map[string]string{"B": "canary-session"}, []byte("canary-stdin")
	s.createSession(t, session)
	key, err := s.store.KeepFileKey(t.Context(), id, []byte("canary-key-canary-key-canary-key"))
	if err != nil || string(key) != "canary-key-canary-key-canary-key" {
		t.Fatalf("%q, %v", key, err)
	}
	if again, err := s.store.KeepFileKey(t.Context(), id, make([]byte, 32)); err != nil || string(again) != string(key) {
		t.Errorf("a second key took the place of the first: %v", err)
	}
	for table, column := range map[string]string{"sandboxes": "env_sealed", "sessions": "secret_sealed"} {
		if n := s.count(t, "SELECT count(*) FROM "+table+" WHERE "+column+" IS NOT NULL AND position('canary'::bytea in "+column+") = 0"); n != 1 {
			t.Errorf("%s.%s: %d sealed rows", table, column, n)
		}
	}
	if n := s.count(t, "SELECT count(*) FROM sandboxes WHERE position('canary'::bytea in file_key_sealed) > 0"); n > 0 {
		t.Error("the signing key is in the table")
	}
	if env, err := s.store.SandboxEnv(t.Context(), s.project, id); err != nil || env["A"] != "canary-env" {
		t.Errorf("%v, %v", env, err)
	}
	target, err := s.store.AttachmentTarget(t.Context(), session.Token)
	if err != nil || target.Session.Spec.Env["B"] != "canary-session" || string(target.Session.Spec.Stdin) != "canary-stdin" {
		t.Errorf("%+v, %v", target.Session.Spec, err)
	}
	for name, store := range map[string]*postgres.Store{"another key": postgres.New(pool).Sealing(envelope.Random()), "no key": postgres.New(pool)} {
		if _, err := store.SandboxEnv(t.Context(), s.project, id); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s opens an environment: %v", name, err)
		}
		if _, err := store.AttachmentTarget(t.Context(), session.Token); err == nil {
			t.Errorf("%s opens a session", name)
		}
		if _, err := store.FileKey(t.Context(), id); err == nil {
			t.Errorf("%s opens a signing key", name)
		}
		if _, err := sandboxes.New(store, nil, s.bell).Stop(t.Context(), s.project, id, 0); err != nil {
			t.Errorf("%s can't stop: %v", name, err)
		}
	}
	if _, err := postgres.New(pool).KeepFileKey(t.Context(), id, key); err == nil {
		t.Error("a key was kept without one to seal it")
	}
	if err := s.store.ForgetFileKey(t.Context(), s.project, id); err != nil {
		t.Fatal(err)
	}
	if key, err := s.store.FileKey(t.Context(), id); err != nil || key != nil {
		t.Errorf("a forgotten key: %v, %v", key, err)
	}
}

func TestSandboxTokens(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	id := s.box.Route.Sandbox
	make := func() record.NewSandboxToken {
		token := space.NewID(space.PrefixToken)
		return record.NewSandboxToken{ID: token, Project: s.project, Sandbox: id, Name: "n", Hash: tokenOf(token), Life: time.Hour}
	}
	kept := make()
	kept.Request = record.Request{Key: "k"}
	must(t)(s.store.CreateSandboxToken(t.Context(), kept))
	again := make()
	again.Request = kept.Request
	if got := must(t)(s.store.CreateSandboxToken(t.Context(), again)); got != kept.ID {
		t.Errorf("the same request made %s, want %s", got, kept.ID)
	}
	revoked := make()
	must(t)(s.store.CreateSandboxToken(t.Context(), revoked))
	for range 2 {
		if err := s.store.RevokeSandboxToken(t.Context(), s.project, id, revoked.ID); err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range map[string][3]string{"another project": {"prj_1", id, kept.ID}, "another sandbox": {s.project, "sbx_1", kept.ID}, "another token": {s.project, id, "tok_1"}} {
		if err := s.store.RevokeSandboxToken(t.Context(), x[0], x[1], x[2]); space.CodeOf(err) != space.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := s.store.Bearer(t.Context(), kept.Hash); err != nil || b != (record.Bearer{Token: kept.ID, Project: s.project, Sandbox: id}) {
		t.Errorf("%+v, %v", b, err)
	}
	if b, err := s.store.Bearer(t.Context(), revoked.Hash); err != nil || !b.Revoked {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := s.store.Bearer(t.Context(), again.Hash); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("a token that was never issued: %v", err)
	}
	list, err := s.store.SandboxTokens(t.Context(), id)
	if err != nil || len(list) != 1 || list[0].ID != kept.ID || list[0].Name != "n" {
		t.Errorf("%+v, %v", list, err)
	}
	for range 99 {
		must(t)(s.store.CreateSandboxToken(t.Context(), make()))
	}
	if _, err := s.store.CreateSandboxToken(t.Context(), make()); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Errorf("the 101st token: %v", err)
	}
	// Tokens survive a stop, and go with their sandbox.
	target, err := s.store.SandboxTokenTarget(t.Context(), kept.Hash, s.session.ID)
	if err != nil || target.Session.ID != s.session.ID || target.Session.Spec.Argv[0] != "true" {
		t.Errorf("%+v, %v", target, err)
	}
	if target, err = s.store.SandboxTokenTarget(t.Context(), kept.Hash, "ses_1"); err != nil || target.Session.ID != "" || target.Sandbox != id {
		t.Errorf("another sandbox's session: %+v, %v", target, err)
	}
}

// stopNow is the stop as a verb like the others.
func stopNow(verbs *sandboxes.Sandboxes) func(context.Context, string, string) (string, error) {
	return func(ctx context.Context, project, id string) (string, error) { return verbs.Stop(ctx, project, id, 0) }
}
