package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
)

// scene is a project with a bit of everything, that a write path acts on. Several share a database.
type scene struct {
	pool    *pgxpool.Pool
	store   *postgres.Store
	name    string // of its organisation and its node
	org     string
	project string
	user    string             // an admin
	key     record.NewKey      // of the user
	tpl     record.NewTemplate // ready
	box     record.NewSandbox  // running
	session record.NewSession  // of it, not started
	upload  string
	shot    string // newest snapshot of the sandbox, once it's remembered
	bell    *wake.Bell
	verbs   *sandboxes.Sandboxes
}

func newScene(t *testing.T, pool *pgxpool.Pool) *scene {
	t.Helper()
	s := &scene{pool: pool, store: postgres.New(pool).Sealing(envelope.New([32]byte{1})), name: space.NewID(space.PrefixOrg)}
	s.bell = new(wake.Bell)
	s.verbs = sandboxes.New(s.store, nil, s.bell)
	s.project = must(t)(s.store.EnsureProject(t.Context(), s.name, "default"))
	if err := pool.QueryRow(t.Context(), "SELECT org FROM projects WHERE id = $1", s.project).Scan(&s.org); err != nil {
		t.Fatal(err)
	}
	s.user = must(t)(s.store.CreateUser(t.Context(), record.NewUser{ID: space.NewID(space.PrefixUser), Org: s.org, Name: "first", Role: space.RoleAdmin, By: s.project}))
	s.key = s.newKey(space.RoleAdmin)
	s.key.Holder = s.user
	if err := s.store.CreateKey(t.Context(), s.key); err != nil {
		t.Fatal(err)
	}
	s.tpl = s.newTemplate("mini")
	must(t)(s.store.BuildTemplate(t.Context(), s.tpl))
	s.observeTemplate(t, s.tpl.ID, record.TemplateStatus{State: record.TemplateReady, Shape: s.tpl.Shape, Digest: "sha256:1"})
	s.box = s.newSandbox()
	must(t)(s.store.CreateSandbox(t.Context(), s.box, roomy))
	s.observe(t, s.box.Route, space.ExecutionRunning)
	s.session = s.newSession()
	s.createSession(t, s.session)
	s.upload = must(t)(s.store.CreateUpload(t.Context(), record.NewUpload{ID: space.NewID(space.PrefixUpload), Project: s.project, Node: s.name, Token: tokenOf(s.project)}))
	return s
}

// must fails the test on an error; the string is what the call returned.
func must(t *testing.T) func(string, error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// roomy is a node that has room for everything.
func roomy(record.Room) error { return nil }

// connect has the node say what it has.
func (s *scene) connect(t *testing.T) {
	t.Helper()
	if _, err := s.store.Observe(t.Context(), record.Seen{Node: s.name, Facts: &record.Facts{CPUs: 1, MemoryBytes: 1 << 40}}); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) newTemplate(name string) record.NewTemplate {
	return record.NewTemplate{ID: space.NewID(space.PrefixTemplate), Operation: space.NewID(space.PrefixOperation), Project: s.project, Name: name,
		Node: s.name, Build: record.Build{Source: record.Source{Recipe: name}}, Content: func(map[string]string) ([32]byte, error) { return sha256.Sum256([]byte(name)), nil },
		Shape: record.Shape{VCPUs: 1, MemoryBytes: 128 << 20, DiskBytes: 64 << 20}}
}

func (s *scene) newKey(role space.Role) record.NewKey {
	id := space.NewID(space.PrefixKey)
	return record.NewKey{ID: id, Project: s.project, Name: "k", Prefix: "space_aaaaaaaa", Hash: sha256.Sum256([]byte(id)), Role: role}
}

func (s *scene) newSandbox() record.NewSandbox {
	return record.NewSandbox{
		Route: space.Route{Sandbox: space.NewID(space.PrefixSandbox), Execution: space.NewID(space.PrefixExecution), Epoch: 1,
			Placement: space.Placement{Kind: space.PlacementNode, Node: s.name}},
		Operation: space.NewID(space.PrefixOperation), Project: s.project, Template: s.tpl.ID, Shape: s.tpl.Shape, Metadata: map[string]string{"k": "v"},
	}
}

func (s *scene) createSession(t *testing.T, n record.NewSession) {
	t.Helper()
	if _, err := s.store.CreateSession(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) newSession() record.NewSession {
	id := space.NewID(space.PrefixSession)
	return record.NewSession{ID: id, Project: s.project, Sandbox: s.box.Route.Sandbox, TokenLife: time.Hour, Token: tokenOf(id),
		Spec: record.Spec{Argv: []string{"true"}, Env: map[string]string{}}}
}

func tokenOf(session string) record.TokenHash {
	var h record.TokenHash
	copy(h[:], session)
	return h
}

func (s *scene) observe(t *testing.T, r space.Route, state space.ExecutionState) []string {
	t.Helper()
	ended, err := s.store.Observe(t.Context(), seen(r, state))
	if err != nil {
		t.Fatal(err)
	}
	return ended
}

func seen(r space.Route, state space.ExecutionState) record.Seen {
	e := record.ExecutionSeen{Route: r, State: state, Since: time.Now()}
	if state == space.ExecutionFailed || state == space.ExecutionLost {
		e.Error = space.Errorf(space.CodeExecutionLost, "it died")
	}
	return record.Seen{Node: "n", Executions: []record.ExecutionSeen{e}}
}

func (s *scene) observeTemplate(t *testing.T, id string, status record.TemplateStatus) {
	t.Helper()
	if _, err := s.store.Observe(t.Context(), record.Seen{Node: "n", Templates: []record.TemplateSeen{{ID: id, Status: status}}}); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) count(t *testing.T, query string) int {
	t.Helper()
	var n int
	if err := s.pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// laws are what must hold of the records at any moment; each counts its breaches.
var laws = map[string]string{
	"a sandbox's current execution is its own":    `SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution WHERE e.sandbox <> s.id`,
	"a sandbox has the operation that made it":    `SELECT count(*) FROM sandboxes s WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.sandbox = s.id AND o.kind = 'create_sandbox')`,
	"what is to go has the operation for it":      `SELECT count(*) FROM sandboxes s WHERE (s.desired = 'deleted') <> EXISTS (SELECT 1 FROM operations o WHERE o.sandbox = s.id AND o.kind = 'delete_sandbox')`,
	"nothing else runs on for what is to go":      `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id AND o.kind <> 'delete_sandbox' WHERE s.desired = 'deleted' AND o.status = 'running'`,
	"what was seen has ended its create":          `SELECT count(*) FROM execution_status st JOIN executions e ON e.id = st.execution JOIN operations o ON o.sandbox = e.sandbox AND o.kind = 'create_sandbox' WHERE o.status = 'running'`,
	"what is stopped or lost has ended its stop":  `SELECT count(*) FROM sandboxes s JOIN execution_status st ON st.execution = s.execution JOIN operations o ON o.sandbox = s.id AND o.kind = 'stop_sandbox' WHERE st.state <> 'running' AND o.status = 'running'`,
	"what was seen of a start has ended it":       `SELECT count(*) FROM sandboxes s JOIN execution_status st ON st.execution = s.execution JOIN operations o ON o.sandbox = s.id AND o.kind = 'start_sandbox' WHERE o.status = 'running'`,
	"what is gone has ended its delete":           `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id AND o.kind = 'delete_sandbox' AND o.status = 'running' WHERE NOT EXISTS (SELECT 1 FROM executions e LEFT JOIN execution_status st ON st.execution = e.id WHERE e.sandbox = s.id AND st.state IS DISTINCT FROM 'gone')`,
	"a disk is of an earlier one of the same box": `SELECT count(*) FROM executions e JOIN executions d ON d.id = e.disk_of WHERE d.sandbox <> e.sandbox OR d.epoch >= e.epoch`,
	"a template has the operation that made it":   `SELECT count(*) FROM templates t WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.template = t.id)`,
	"a built template has ended its build":        `SELECT count(*) FROM template_status st JOIN operations o ON o.template = st.template WHERE st.state <> 'building' AND o.status = 'running'`,
	"a session has a token":                       `SELECT count(*) FROM sessions x WHERE NOT EXISTS (SELECT 1 FROM attachments a WHERE a.session = x.id)`,
	"a claimed key names what was made": `SELECT count(*) FROM idempotency_keys k WHERE NOT EXISTS (SELECT 1 FROM operations o WHERE o.id = k.resource) AND NOT EXISTS (SELECT 1 FROM sessions x WHERE x.id = k.resource) AND NOT EXISTS (SELECT 1 FROM sandbox_tokens x WHERE x.id = k.resource)
		AND NOT EXISTS (SELECT 1 FROM uploads x WHERE x.id = k.resource) AND NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = k.resource) AND NOT EXISTS (SELECT 1 FROM users u WHERE u.id = k.resource)`,
	"a sandbox's creation is an event": `SELECT count(*) FROM sandboxes s WHERE (SELECT count(*) FROM events e WHERE e.sandbox = s.id AND e.type = 'sandbox.created') <> 1`,
	"an end is an event, once": `SELECT count(*) FROM execution_status st JOIN executions x ON x.id = st.execution WHERE st.state IN ('failed', 'stopped', 'lost')
		AND (SELECT count(*) = 0 OR count(*) <> count(DISTINCT e.type) FROM events e WHERE e.sandbox = x.sandbox AND e.data->>'execution' = x.id AND e.type IN ('sandbox.failed', 'sandbox.stopped', 'sandbox.lost'))`,
	"a key's creation is an event":        `SELECT count(*) FROM api_keys k WHERE (SELECT count(*) FROM events e WHERE e.key = k.id AND e.type = 'key.created') <> 1`,
	"no valid key of who is gone":         `SELECT count(*) FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder WHERE k.revoked_at IS NULL AND (p.deleted_at IS NOT NULL OR u.removed_at IS NOT NULL)`,
	"what holds a suspended one is there": `SELECT count(*) FROM sandboxes s LEFT JOIN snapshots n ON n.id = s.suspend_into WHERE s.desired = 'suspended' AND (n.id IS NULL OR n.deleted_at IS NOT NULL)`,
	"what is to be loaded is there": `SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution LEFT JOIN execution_status st ON st.execution = e.id LEFT JOIN snapshots n ON n.id = e.snapshot
		WHERE e.snapshot IS NOT NULL AND st.state IS NULL AND s.desired <> 'deleted' AND (n.id IS NULL OR n.deleted_at IS NOT NULL)`,
	"a ready snapshot is an event, once": `SELECT count(*) FROM snapshot_status st WHERE st.state = 'ready' AND (SELECT count(*) FROM events e WHERE e.type = 'snapshot.ready' AND e.data->>'snapshot' = st.snapshot) <> 1`,
	"a snapshot has ended what waited":   `SELECT count(*) FROM snapshot_status st JOIN operations o ON o.snapshot = st.snapshot AND o.kind = 'snapshot_sandbox' WHERE st.state IN ('ready', 'failed') AND o.status = 'running'`,
	"a deleted project has no sandbox":   `SELECT count(*) FROM projects p JOIN sandboxes s ON s.project = p.id WHERE p.deleted_at IS NOT NULL AND s.desired <> 'deleted'`,
}

func (s *scene) audit(t *testing.T) {
	t.Helper()
	for law, breaches := range laws {
		if n := s.count(t, breaches); n > 0 {
			t.Errorf("%d breaches of the law that %s", n, law)
		}
	}
}

// writes are the write paths. Each is done, fails at its commit, is done again, and must have had its effect once.
var writes = []struct {
	name   string
	do     func(ctx context.Context, s *scene) error
	effect string                       // counts what it makes
	before func(t *testing.T, s *scene) // what must be so; nil: nothing more
}{
	{"create sandbox", func(ctx context.Context, s *scene) error {
		n := s.newSandbox()
		n.Request = record.Request{Key: "k"}
		_, err := s.store.CreateSandbox(ctx, n, roomy)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id`, nil},
	{"delete sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Delete(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE s.desired = 'deleted' AND s.revision = 2 AND o.kind = 'delete_sandbox'`, nil},
	{"stop sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Stop(ctx, s.project, s.box.Route.Sandbox, time.Second)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE s.desired = 'stopped' AND s.revision = 2 AND o.kind = 'stop_sandbox'`, nil},
	{"start sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Start(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution JOIN operations o ON o.sandbox = s.id WHERE e.epoch = 2 AND o.kind = 'start_sandbox'`, lost},
	{"update sandbox", func(ctx context.Context, s *scene) error {
		return s.store.UpdateSandbox(ctx, s.project, s.box.Route.Sandbox, record.Update{Env: map[string]string{"A": "b"}})
	}, `SELECT count(*) FROM sandboxes WHERE env_sealed IS NOT NULL`, nil},
	{"create sandbox token", func(ctx context.Context, s *scene) error {
		id := space.NewID(space.PrefixToken)
		_, err := s.store.CreateSandboxToken(ctx, record.NewSandboxToken{
			ID: id, Project: s.project, Sandbox: s.box.Route.Sandbox, Hash: tokenOf(id), Life: time.Hour, Request: record.Request{Key: "k"},
		})
		return err
	}, `SELECT count(*) FROM sandbox_tokens`, nil},
	{"keep file key", func(ctx context.Context, s *scene) error {
		_, err := s.store.KeepFileKey(ctx, s.box.Route.Sandbox, make([]byte, 32))
		return err
	}, `SELECT count(*) FROM sandboxes WHERE file_key_sealed IS NOT NULL`, nil},
	{"build template", func(ctx context.Context, s *scene) error {
		n := s.newTemplate("base")
		n.Request = record.Request{Key: "k"}
		_, err := s.store.BuildTemplate(ctx, n)
		return err
	}, `SELECT count(*) FROM templates t JOIN operations o ON o.template = t.id WHERE t.name = 'base'`, nil},
	{"create session", func(ctx context.Context, s *scene) error {
		n := s.newSession()
		n.Request = record.Request{Key: "k"}
		_, err := s.store.CreateSession(ctx, n)
		return err
	}, `SELECT count(*) FROM sessions x JOIN attachments a ON a.session = x.id`, nil},
	{"fix session", func(ctx context.Context, s *scene) error {
		_, err := s.store.FixSession(ctx, s.session.ID, s.box.Route.Execution)
		return err
	}, `SELECT count(*) FROM sessions WHERE execution IS NOT NULL AND started_at IS NOT NULL`, nil},
	{"observe an execution", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, seen(s.box.Route, space.ExecutionLost))
		return err
	}, `SELECT count(*) FROM execution_status WHERE state = 'lost'`, nil},
	{"observe a template", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: "n", Templates: []record.TemplateSeen{{ID: s.tpl.ID, Status: record.TemplateStatus{State: record.TemplateBuilding}}}})
		return err
	}, `SELECT count(*) FROM template_status WHERE state = 'building'`, nil},
	{"see a node", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: s.name, Facts: &record.Facts{Driver: "fake"}})
		return err
	}, `SELECT count(*) FROM nodes`, nil},
	{"create project", func(ctx context.Context, s *scene) error {
		_, err := s.store.CreateProject(ctx, record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: "second", By: s.project, Request: record.Request{Key: "k"}})
		return err
	}, `SELECT count(*) FROM projects WHERE name = 'second'`, nil},
	{"update project", func(ctx context.Context, s *scene) error {
		n, name := int64(7), "renamed"
		return s.store.UpdateProject(ctx, s.org, s.project, record.ProjectChange{Name: &name, Quota: &record.Quota{VCPUs: &n}})
	}, `SELECT count(*) FROM projects WHERE name = 'renamed' AND quota_vcpus = 7`, nil},
	{"create user", func(ctx context.Context, s *scene) error {
		_, err := s.store.CreateUser(ctx, record.NewUser{ID: space.NewID(space.PrefixUser), Org: s.org, Name: "second", Role: space.RoleAdmin, By: s.project, Request: record.Request{Key: "k"}})
		return err
	}, `SELECT count(*) FROM users WHERE name = 'second'`, nil},
	{"set a user's role", func(ctx context.Context, s *scene) error {
		return s.store.SetUserRole(ctx, s.org, s.user, space.RoleDeveloper)
	}, `SELECT count(*) FROM users WHERE role = 'developer'`, nil},
	{"create key", func(ctx context.Context, s *scene) error {
		k := s.newKey(space.RoleViewer)
		k.ID = "second_" + s.project // the same key again: it's refused when it's there
		if err := s.store.CreateKey(ctx, k); err == nil || space.CodeOf(err) == space.CodeUnavailable {
			return err
		}
		return nil
	}, `SELECT count(*) FROM api_keys WHERE id LIKE 'second_%'`, nil},
	{"revoke key", func(ctx context.Context, s *scene) error {
		return s.store.RevokeKey(ctx, record.KeyScope{Org: s.org}, s.key.ID)
	}, `SELECT count(*) FROM events WHERE type = 'key.revoked'`, nil},
	{"ensure project", func(ctx context.Context, s *scene) error {
		_, err := s.store.EnsureProject(ctx, s.name+"2", "first")
		return err
	}, `SELECT count(*) FROM projects p JOIN orgs o ON o.id = p.org WHERE p.name = 'first'`, nil},
	{"pause sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Pause(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, wanted("paused", "pause_sandbox"), nil},
	{"resume sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Resume(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, wanted("running", "resume_sandbox"), paused},
	{"suspend sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Suspend(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, wanted("suspended", "suspend_sandbox"), nil},
	{"suspend a paused sandbox for its memory", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Relieve(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, wanted("suspended", "suspend_sandbox"), paused},
	{"suspend an idle sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.EndIdle(ctx, record.Idling{ID: s.box.Route.Sandbox, Project: s.project, Idle: record.Idle{After: time.Hour, Action: record.IdleSuspend}})
		return err
	}, wanted("suspended", "suspend_sandbox"), idle},
	{"suspend at a deadline", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Expire(ctx, record.Expiring{ID: s.box.Route.Sandbox, Project: s.project, Lifetime: record.Lifetime{OnExpiry: record.ExpirySuspend}})
		return err
	}, wanted("suspended", "suspend_sandbox"), expired},
	{"restore sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Restore(ctx, s.project, s.box.Route.Sandbox, false)
		return err
	}, loaded("restore_sandbox"), suspendedBefore},
	{"wake sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Wake(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, loaded("restore_sandbox"), suspendedBefore},
	{"roll sandbox back", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Rollback(ctx, s.project, s.box.Route.Sandbox, "", false, record.Request{})
		return err
	}, loaded("rollback_sandbox"), snapshotBefore},
	{"fork sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Fork(ctx, s.project, s.box.Route.Sandbox, sandboxes.Fork{Count: 1}, record.Request{Key: "f"})
		return err
	}, `SELECT count(*) FROM operations o JOIN operations c ON c.part_of = o.id JOIN sandboxes b ON b.id = c.sandbox JOIN executions e ON e.id = b.execution
		JOIN snapshots n ON n.id = o.snapshot AND n.id = e.snapshot AND n.id = b.parent_snapshot AND n.purpose = 'fork' WHERE o.kind = 'fork_sandbox'`, up},
	{"take snapshot", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Take(ctx, s.project, s.box.Route.Sandbox, record.SnapshotDisk, "named", record.Request{Key: "t"})
		return err
	}, `SELECT count(*) FROM snapshots n JOIN operations o ON o.snapshot = n.id WHERE n.name = 'named' AND o.kind = 'snapshot_sandbox'`, nil},
	{"take a snapshot of itself", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Roll(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM snapshots WHERE purpose = 'rolling'`, due},
	{"observe a snapshot", func(ctx context.Context, s *scene) error {
		return s.see(ctx, record.SnapshotStatus{State: record.SnapshotReady, Digest: "sha256:x", At: time.Now(), Bytes: 7})
	}, `SELECT count(*) FROM snapshots n JOIN snapshot_status st ON st.snapshot = n.id JOIN operations o ON o.snapshot = n.id
		WHERE st.state = 'ready' AND o.status = 'succeeded' AND (SELECT count(*) FROM events e WHERE e.data->>'snapshot' = n.id AND e.type = 'snapshot.ready') = 1`, taking},
	{"observe a suspend that failed", func(ctx context.Context, s *scene) error {
		return s.see(ctx, record.SnapshotStatus{State: record.SnapshotFailed, Error: space.Errorf(space.CodeInternal, "full")})
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE o.kind = 'suspend_sandbox' AND o.status = 'failed' AND s.desired = 'running'`, suspending},
	{"observe a suspended sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: s.name, Executions: []record.ExecutionSeen{{Route: s.box.Route, State: space.ExecutionSuspended, Since: time.Now(), HeldBy: s.shot}}})
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id JOIN execution_status st ON st.execution = s.execution
		WHERE o.kind = 'suspend_sandbox' AND o.status = 'succeeded' AND st.state = 'suspended' AND st.snapshot = s.suspend_into`, suspending},
	{"delete snapshot", func(ctx context.Context, s *scene) error {
		if _, err := s.store.DeleteSnapshot(ctx, s.project, s.shot); err == nil || space.CodeOf(err) == space.CodeUnavailable {
			return err
		}
		return nil // it's gone already
	}, `SELECT count(*) FROM snapshots WHERE deleted_at IS NOT NULL`, snapshotBefore},
	{"collect snapshots", func(ctx context.Context, s *scene) error {
		_, err := s.store.DeleteUnused(ctx, []string{s.shot})
		return err
	}, `SELECT count(*) FROM snapshots WHERE deleted_at IS NOT NULL`, snapshotBefore},
	{"delete a sandbox with its snapshots", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Delete(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM snapshots n JOIN sandboxes s ON s.id = n.sandbox WHERE n.deleted_at IS NOT NULL AND s.desired = 'deleted'`, snapshotBefore},
	{"record activity", func(ctx context.Context, s *scene) error {
		return s.store.Touch(ctx, map[string]time.Time{s.box.Route.Sandbox: time.Now()})
	}, `SELECT count(*) FROM sandboxes WHERE active_at > now() - interval '1 hour'`, idle},
	{"update what a sandbox does by itself", func(ctx context.Context, s *scene) error {
		return s.store.UpdateSandbox(ctx, s.project, s.box.Route.Sandbox, record.Update{Change: func(l record.Lifecycle) record.Lifecycle { l.AutoWake = true; return l }})
	}, `SELECT count(*) FROM sandboxes WHERE auto_wake`, nil},
	{"update what a template's sandboxes do by themselves", func(ctx context.Context, s *scene) error {
		n := s.newTemplate("mini")
		n.Lifecycle = &record.Lifecycle{AutoWake: true}
		_, err := s.store.BuildTemplate(ctx, n)
		return err
	}, `SELECT count(*) FROM templates WHERE lifecycle IS NOT NULL`, nil},
}

// wanted counts sandboxes of which something is wanted by an operation.
func wanted(desired, kind string) string {
	return fmt.Sprintf("SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE s.desired = '%s' AND o.kind = '%s'", desired, kind)
}

// loaded counts sandboxes that an operation has go on from a snapshot.
func loaded(kind string) string {
	return fmt.Sprintf("SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution JOIN operations o ON o.sandbox = s.id AND o.snapshot = e.snapshot WHERE e.epoch = 2 AND e.replaces IS NOT NULL AND o.kind = '%s'", kind)
}

// What must be so before some of the writes.
func up(t *testing.T, s *scene) { s.connect(t) }

func lost(t *testing.T, s *scene) {
	s.connect(t)
	s.observe(t, s.box.Route, space.ExecutionLost)
}

func paused(t *testing.T, s *scene) {
	must(t)(s.verbs.Pause(t.Context(), s.project, s.box.Route.Sandbox))
	s.observe(t, s.box.Route, space.ExecutionPaused)
}

func suspending(t *testing.T, s *scene) {
	must(t)(s.verbs.Suspend(t.Context(), s.project, s.box.Route.Sandbox))
	s.remember(t)
}

func suspendedBefore(t *testing.T, s *scene) {
	s.connect(t)
	suspending(t, s)
	s.taken(t, s.box.Route.Sandbox, 1)
	s.suspended(t, s.box.Route)
}

func taking(t *testing.T, s *scene) {
	s.connect(t)
	must(t)(s.verbs.Take(t.Context(), s.project, s.box.Route.Sandbox, record.SnapshotFull, "", record.Request{}))
	s.remember(t)
}

func snapshotBefore(t *testing.T, s *scene) {
	taking(t, s)
	s.taken(t, s.box.Route.Sandbox, 1)
}

func idle(t *testing.T, s *scene) {
	s.exec(t, "UPDATE sandboxes SET active_at = now() - interval '2 hours', idle_after_seconds = 3600, idle_action = 'suspend' WHERE id = $1", s.box.Route.Sandbox)
}

func expired(t *testing.T, s *scene) {
	s.exec(t, "UPDATE sandboxes SET expires_at = now() - interval '1 second', on_expiry = 'suspend' WHERE id = $1", s.box.Route.Sandbox)
}

func due(t *testing.T, s *scene) {
	s.connect(t)
	s.roll(t, &record.Rolling{FullEvery: time.Minute})
	s.exec(t, "UPDATE sandboxes SET created_at = created_at - interval '1 hour' WHERE id = $1", s.box.Route.Sandbox)
}

func (s *scene) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// remember remembers the sandbox's newest snapshot.
func (s *scene) remember(t *testing.T) {
	t.Helper()
	rows, err := s.store.Snapshots(t.Context(), s.project, s.box.Route.Sandbox, record.Position{}, 1)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	s.shot = rows[0].ID
}

// see has the node say something of that snapshot.
func (s *scene) see(ctx context.Context, status record.SnapshotStatus) error {
	_, err := s.store.Observe(ctx, record.Seen{Node: s.name, Snapshots: []record.SnapshotSeen{{ID: s.shot, Status: status}}})
	return err
}

// TestFailureTable cuts each write path's connection at the commit, before and after it took effect.
func TestFailureTable(t *testing.T) {
	pool, fault := pgtest.Faulty(t, pgtest.URL(t))
	for _, w := range writes {
		t.Run(w.name+", without effect", func(t *testing.T) {
			s := newScene(t, pool)
			if w.before != nil {
				w.before(t, s)
			}
			before := s.count(t, w.effect)
			fault.BeforeCommit()
			wantCut(t, fault, w.do(t.Context(), s))
			wantEffects(t, s, w.effect, before, 0)
			if err := w.do(t.Context(), s); err != nil {
				t.Errorf("again: %v", err)
			}
			wantEffects(t, s, w.effect, before, 1)
		})
		t.Run(w.name+", with effect", func(t *testing.T) {
			s := newScene(t, pool)
			if w.before != nil {
				w.before(t, s)
			}
			before := s.count(t, w.effect)
			fault.AfterCommit()
			wantCut(t, fault, w.do(t.Context(), s))
			wantEffects(t, s, w.effect, before, 1)
			if err := w.do(t.Context(), s); err != nil {
				t.Errorf("again: %v", err)
			}
			wantEffects(t, s, w.effect, before, 1)
		})
	}
}

func wantCut(t *testing.T, fault *pgtest.Fault, err error) {
	t.Helper()
	if space.CodeOf(err) != space.CodeUnavailable || fault.Pending() {
		t.Errorf("a write that was cut at its commit says %v", err)
	}
}

func wantEffects(t *testing.T, s *scene, effect string, before, want int) {
	t.Helper()
	if got := s.count(t, effect) - before; got != want {
		t.Errorf("%d effects, want %d", got, want)
	}
	s.audit(t)
}
