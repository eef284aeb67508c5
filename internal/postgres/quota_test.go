package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/pgtest"
)

// newRoom is the scene in a project with a quota.
func newRoom(t *testing.T, s *scene, q record.Quota) room {
	t.Helper()
	own := *s
	own.project = must(t)(s.store.CreateProject(t.Context(), record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: space.NewID("room"), Quota: q, By: s.project}))
	return room{&own}
}

type room struct{ *scene }

func (r room) used(t *testing.T) record.Usage {
	t.Helper()
	p, err := r.store.Project(t.Context(), r.org, r.project)
	if err != nil {
		t.Fatal(err)
	}
	return p.Used
}

func number(n int64) *int64 { return &n }

const mib = record.MiB

// TestQuotaFollowsTheModel creates and deletes at random, and holds each answer and what is used against a model.
func TestQuotaFollowsTheModel(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	rapid.Check(t, func(rt *rapid.T) {
		limit := record.Usage{
			Sandboxes: rapid.Int64Range(0, 4).Draw(rt, "sandboxes"), VCPUs: rapid.Int64Range(0, 8).Draw(rt, "vcpus"),
			MemoryBytes: rapid.Int64Range(0, 8).Draw(rt, "memory") * 64 * mib, DiskBytes: rapid.Int64Range(0, 8).Draw(rt, "disk") * 64 * mib,
		}
		r := newRoom(t, s, record.Quota{Sandboxes: &limit.Sandboxes, VCPUs: &limit.VCPUs, MemoryBytes: &limit.MemoryBytes, DiskBytes: &limit.DiskBytes})
		var used record.Usage
		live := map[string]record.Shape{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(rt, "delete") {
				for id, shape := range live {
					if _, err := r.verbs.Delete(t.Context(), r.project, id); err != nil {
						rt.Fatal(err)
					}
					delete(live, id)
					used = add(used, shape, -1)
					break
				}
			} else {
				n := r.newSandbox()
				n.Shape = record.Shape{VCPUs: rapid.Uint32Range(1, 4).Draw(rt, "v"), MemoryBytes: rapid.Uint64Range(1, 4).Draw(rt, "m") * 64 * mib, DiskBytes: rapid.Uint64Range(1, 4).Draw(rt, "d") * 64 * mib}
				after := add(used, n.Shape, 1)
				_, err := r.store.CreateSandbox(t.Context(), n, roomy)
				if fits := within(after, limit); (err == nil) != fits || err != nil && space.CodeOf(err) != space.CodeQuotaExceeded {
					rt.Fatalf("used %+v of %+v, %s more: %v, fits %v", used, limit, n.Shape, err, fits)
				}
				if err == nil {
					used, live[n.Route.Sandbox] = after, n.Shape
				}
			}
			if got := r.used(t); got != used {
				rt.Fatalf("used %+v, want %+v", got, used)
			}
		}
	})
}

func add(u record.Usage, s record.Shape, sign int64) record.Usage {
	return record.Usage{Sandboxes: u.Sandboxes + sign, VCPUs: u.VCPUs + sign*int64(s.VCPUs), MemoryBytes: u.MemoryBytes + sign*int64(s.MemoryBytes), DiskBytes: u.DiskBytes + sign*int64(s.DiskBytes)}
}

func within(u, limit record.Usage) bool {
	return u.Sandboxes <= limit.Sandboxes && u.VCPUs <= limit.VCPUs && u.MemoryBytes <= limit.MemoryBytes && u.DiskBytes <= limit.DiskBytes
}

// TestQuotaIsExactUnderConcurrency has many create and delete at once at the limit, and somebody who looks all the time: never is more used
// than allowed, exactly as many are let in as fit, and all comes back.
func TestQuotaIsExactUnderConcurrency(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	const limit, workers, rounds = 5, 12, 6
	r := newRoom(t, s, record.Quota{Sandboxes: number(limit), MemoryBytes: number(limit * 128 * mib)})
	watching, stop := context.WithCancel(t.Context())
	var watcher, wg sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			if got := r.used(t); got.Sandboxes > limit || got.MemoryBytes > limit*128*mib {
				t.Errorf("%+v are used", got)
				return
			}
		}
	})
	var refused atomic.Int64
	for range workers {
		wg.Go(func() {
			for range rounds {
				refused.Add(r.comeAndGo(t))
			}
		})
	}
	wg.Wait()
	stop()
	watcher.Wait()
	if got := r.used(t); got != (record.Usage{}) {
		t.Errorf("after all was deleted: %+v are used", got)
	}
	var let atomic.Int64
	for range 3 * limit { // nobody deletes: as many as fit are let in
		wg.Go(func() {
			if _, err := r.store.CreateSandbox(t.Context(), r.newSandbox(), roomy); err == nil {
				let.Add(1)
			} else if space.CodeOf(err) != space.CodeQuotaExceeded {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if let.Load() != limit {
		t.Errorf("%d were let in, want %d", let.Load(), limit)
	}
	if refused.Load() == 0 {
		t.Error("nobody was refused: the limit was never reached")
	}
}

// comeAndGo creates three sandboxes and deletes those that it got. It returns how many it didn't get.
func (r room) comeAndGo(t *testing.T) (refused int64) {
	var got []string
	for range 3 {
		n := r.newSandbox()
		switch _, err := r.store.CreateSandbox(t.Context(), n, roomy); {
		case err == nil:
			got = append(got, n.Route.Sandbox)
		case space.CodeOf(err) == space.CodeQuotaExceeded:
			refused++
		default:
			t.Error(err)
		}
	}
	for _, id := range got {
		if _, err := r.verbs.Delete(t.Context(), r.project, id); err != nil {
			t.Error(err)
		}
	}
	return refused
}

// TestQuotaHoldsUpNobodyElse has one project's quota locked: another project creates all the same.
func TestQuotaHoldsUpNobodyElse(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	locked, free := newRoom(t, s, record.Quota{}), newRoom(t, s, record.Quota{})
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM projects WHERE id = $1 FOR NO KEY UPDATE", locked.project); err != nil {
		t.Fatal(err)
	}
	must(t)(free.store.CreateSandbox(t.Context(), free.newSandbox(), roomy))
	waiting := make(chan error, 1)
	go func() {
		_, err := locked.store.CreateSandbox(t.Context(), locked.newSandbox(), roomy)
		waiting <- err
	}()
	awaitLockWait(t, s)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Error(err)
	}
}

// awaitLockWait returns when somebody in the database waits for a row. PostgreSQL offers no event for that.
func awaitLockWait(t *testing.T, s *scene) {
	t.Helper()
	for t.Context().Err() == nil {
		if s.count(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype IN ('transactionid', 'tuple')") > 0 {
			return
		}
	}
}

// TestLoweredQuotaEndsNothing sets a quota below what is used: what is there stays, nothing more begins, and deleting helps.
func TestLoweredQuotaEndsNothing(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	r := newRoom(t, s, record.Quota{})
	var made []record.NewSandbox
	for range 3 {
		n := r.newSandbox()
		must(t)(r.store.CreateSandbox(t.Context(), n, roomy))
		made = append(made, n)
	}
	if err := r.store.UpdateProject(t.Context(), r.org, r.project, record.ProjectChange{Quota: &record.Quota{Sandboxes: number(2)}}); err != nil {
		t.Fatal(err)
	}
	for k, n := range made {
		_, err := r.store.CreateSandbox(t.Context(), r.newSandbox(), roomy)
		if space.CodeOf(err) != space.CodeQuotaExceeded {
			t.Fatalf("with %d of 2: %v", len(made)-k, err)
		}
		if _, err := r.verbs.Delete(t.Context(), r.project, n.Route.Sandbox); err != nil {
			t.Fatal(err)
		}
		if r.used(t).Sandboxes == 1 {
			break
		}
	}
	must(t)(r.store.CreateSandbox(t.Context(), r.newSandbox(), roomy))
}

// TestRefusedCreateLeavesNothing holds that what a quota refuses is as if it had never been asked.
func TestRefusedCreateLeavesNothing(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	r := newRoom(t, s, record.Quota{VCPUs: number(0)})
	n := r.newSandbox()
	n.Request = record.Request{Key: "k"}
	if _, err := r.store.CreateSandbox(t.Context(), n, roomy); space.CodeOf(err) != space.CodeQuotaExceeded {
		t.Fatal(err)
	}
	for _, table := range []string{"sandboxes", "operations", "events", "idempotency_keys"} {
		if got := s.count(t, fmt.Sprintf("SELECT count(*) FROM %s WHERE project = '%s'", table, r.project)); got != 0 {
			t.Errorf("%d rows in %s", got, table)
		}
	}
	s.audit(t)
}

// TestStartsAreHeldToTheQuota stops some sandboxes, which keep their places and disks and give vCPUs and memory back when the stop is
// accepted, and starts them all at once where only some fit.
func TestStartsAreHeldToTheQuota(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	s.connect(t)
	const all, fit = 6, 2
	r := newRoom(t, s, record.Quota{})
	var made []record.NewSandbox
	for range all {
		n := r.newSandbox()
		must(t)(r.store.CreateSandbox(t.Context(), n, roomy))
		r.observe(t, n.Route, space.ExecutionRunning)
		must(t)(r.verbs.Stop(t.Context(), r.project, n.Route.Sandbox, 0))
		made = append(made, n)
	}
	shape := s.tpl.Shape
	if got, want := r.used(t), (record.Usage{Sandboxes: all, DiskBytes: all * int64(shape.DiskBytes)}); got != want {
		t.Errorf("when all stops were accepted %+v are used, want %+v", got, want)
	}
	for _, n := range made {
		r.observe(t, n.Route, space.ExecutionStopped)
	}
	limit := record.Quota{Sandboxes: number(1), DiskBytes: number(1), MemoryBytes: number(fit * int64(shape.MemoryBytes))} // places and disks were given before
	if err := r.store.UpdateProject(t.Context(), r.org, r.project, record.ProjectChange{Quota: &limit}); err != nil {
		t.Fatal(err)
	}
	var started, refused atomic.Int32
	var wg sync.WaitGroup
	for _, n := range made {
		wg.Go(func() {
			switch _, err := r.verbs.Start(t.Context(), r.project, n.Route.Sandbox); space.CodeOf(err) {
			case "":
				started.Add(1)
			case space.CodeQuotaExceeded:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if started.Load() != fit || refused.Load() != all-fit {
		t.Errorf("%d were started and %d refused, want %d and %d", started.Load(), refused.Load(), fit, all-fit)
	}
	if got := r.used(t); got.MemoryBytes != *limit.MemoryBytes || got.VCPUs != fit*int64(shape.VCPUs) {
		t.Errorf("%+v are used", got)
	}
	s.audit(t)
}

// TestTemplatesCountTheirDisk: a template has its disk from its order on until its delete is accepted, and not if its build failed.
func TestTemplatesCountTheirDisk(t *testing.T) {
	s := newScene(t, pgtest.Pool(t))
	r := newRoom(t, s, record.Quota{DiskBytes: number(300 * mib)})
	build := func(name string, disk uint64) (record.NewTemplate, error) {
		n := r.newTemplate(name)
		n.Shape.DiskBytes = disk
		_, err := r.store.BuildTemplate(t.Context(), n)
		return n, err
	}
	wantUsed := func(want int64) {
		t.Helper()
		if got := r.used(t); got != (record.Usage{DiskBytes: want * mib}) {
			t.Errorf("%+v is used, want %d MiB of disk", got, want)
		}
	}
	first, err := build("one", 200*mib)
	if err != nil {
		t.Fatal(err)
	}
	wantUsed(200)
	second, err := build("unknown", 0)
	if err != nil {
		t.Fatal(err)
	}
	wantUsed(264)
	if _, err := r.store.BuildTemplate(t.Context(), first); err != nil { // the same one again takes no more
		t.Error(err)
	}
	refused := func(err error) {
		t.Helper()
		var e *space.Error
		if !errors.As(err, &e) || e.Code != space.CodeQuotaExceeded || e.Field != "disk_mb" || !strings.Contains(e.Message, "300 MiB of disk") {
			t.Errorf("%v, want the quota of disk named", err)
		}
	}
	_, err = build("large", 64*mib)
	refused(err)
	_, err = build("unknown too", 0)
	refused(err)
	box := r.newSandbox()
	box.Shape.DiskBytes = 64 * mib
	_, err = r.store.CreateSandbox(t.Context(), box, roomy)
	refused(err)
	r.observeTemplate(t, second.ID, record.TemplateStatus{State: record.TemplateReady, Shape: record.Shape{VCPUs: 1, MemoryBytes: 64 * mib, DiskBytes: 90 * mib}, Digest: "d"})
	wantUsed(290)
	r.observeTemplate(t, first.ID, record.TemplateStatus{State: record.TemplateFailed, Error: space.Errorf(space.CodeGuest, "no")})
	wantUsed(90)
	if _, _, err := r.store.DeleteTemplate(t.Context(), r.project, second.ID); err != nil {
		t.Error(err)
	}
	wantUsed(0)
}
