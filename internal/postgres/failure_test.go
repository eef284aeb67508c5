package postgres_test

import (
	"context"
	"crypto/sha256"
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

// lose has the node come up and the running sandbox be lost, if that's what is needed.
func (s *scene) lose(t *testing.T, needed bool) {
	t.Helper()
	if needed {
		s.connect(t)
		s.observe(t, s.box.Route, space.ExecutionLost)
	}
}

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
	"a key's creation is an event":     `SELECT count(*) FROM api_keys k WHERE (SELECT count(*) FROM events e WHERE e.key = k.id AND e.type = 'key.created') <> 1`,
	"no valid key of who is gone":      `SELECT count(*) FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder WHERE k.revoked_at IS NULL AND (p.deleted_at IS NOT NULL OR u.removed_at IS NOT NULL)`,
	"a deleted project has no sandbox": `SELECT count(*) FROM projects p JOIN sandboxes s ON s.project = p.id WHERE p.deleted_at IS NOT NULL AND s.desired <> 'deleted'`,
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
	effect string // counts what it makes
}{
	{"create sandbox", func(ctx context.Context, s *scene) error {
		n := s.newSandbox()
		n.Request = record.Request{Key: "k"}
		_, err := s.store.CreateSandbox(ctx, n, roomy)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id`},
	{"delete sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Delete(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE s.desired = 'deleted' AND s.revision = 2 AND o.kind = 'delete_sandbox'`},
	{"stop sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Stop(ctx, s.project, s.box.Route.Sandbox, time.Second)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN operations o ON o.sandbox = s.id WHERE s.desired = 'stopped' AND s.revision = 2 AND o.kind = 'stop_sandbox'`},
	{"start sandbox", func(ctx context.Context, s *scene) error {
		_, err := s.verbs.Start(ctx, s.project, s.box.Route.Sandbox)
		return err
	}, `SELECT count(*) FROM sandboxes s JOIN executions e ON e.id = s.execution JOIN operations o ON o.sandbox = s.id WHERE e.epoch = 2 AND o.kind = 'start_sandbox'`},
	{"update sandbox", func(ctx context.Context, s *scene) error {
		return s.store.UpdateSandbox(ctx, s.project, s.box.Route.Sandbox, record.Update{Env: map[string]string{"A": "b"}})
	}, `SELECT count(*) FROM sandboxes WHERE env_sealed IS NOT NULL`},
	{"create sandbox token", func(ctx context.Context, s *scene) error {
		id := space.NewID(space.PrefixToken)
		_, err := s.store.CreateSandboxToken(ctx, record.NewSandboxToken{
			ID: id, Project: s.project, Sandbox: s.box.Route.Sandbox, Hash: tokenOf(id), Life: time.Hour, Request: record.Request{Key: "k"},
		})
		return err
	}, `SELECT count(*) FROM sandbox_tokens`},
	{"keep file key", func(ctx context.Context, s *scene) error {
		_, err := s.store.KeepFileKey(ctx, s.box.Route.Sandbox, make([]byte, 32))
		return err
	}, `SELECT count(*) FROM sandboxes WHERE file_key_sealed IS NOT NULL`},
	{"build template", func(ctx context.Context, s *scene) error {
		n := s.newTemplate("base")
		n.Request = record.Request{Key: "k"}
		_, err := s.store.BuildTemplate(ctx, n)
		return err
	}, `SELECT count(*) FROM templates t JOIN operations o ON o.template = t.id WHERE t.name = 'base'`},
	{"create session", func(ctx context.Context, s *scene) error {
		n := s.newSession()
		n.Request = record.Request{Key: "k"}
		_, err := s.store.CreateSession(ctx, n)
		return err
	}, `SELECT count(*) FROM sessions x JOIN attachments a ON a.session = x.id`},
	{"fix session", func(ctx context.Context, s *scene) error {
		_, err := s.store.FixSession(ctx, s.session.ID, s.box.Route.Execution)
		return err
	}, `SELECT count(*) FROM sessions WHERE execution IS NOT NULL AND started_at IS NOT NULL`},
	{"observe an execution", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, seen(s.box.Route, space.ExecutionLost))
		return err
	}, `SELECT count(*) FROM execution_status WHERE state = 'lost'`},
	{"observe a template", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: "n", Templates: []record.TemplateSeen{{ID: s.tpl.ID, Status: record.TemplateStatus{State: record.TemplateBuilding}}}})
		return err
	}, `SELECT count(*) FROM template_status WHERE state = 'building'`},
	{"see a node", func(ctx context.Context, s *scene) error {
		_, err := s.store.Observe(ctx, record.Seen{Node: s.name, Facts: &record.Facts{Driver: "fake"}})
		return err
	}, `SELECT count(*) FROM nodes`},
	{"create project", func(ctx context.Context, s *scene) error {
		_, err := s.store.CreateProject(ctx, record.NewProject{ID: space.NewID(space.PrefixProject), Org: s.org, Name: "second", By: s.project, Request: record.Request{Key: "k"}})
		return err
	}, `SELECT count(*) FROM projects WHERE name = 'second'`},
	{"update project", func(ctx context.Context, s *scene) error {
		n, name := int64(7), "renamed"
		return s.store.UpdateProject(ctx, s.org, s.project, record.ProjectChange{Name: &name, Quota: &record.Quota{VCPUs: &n}})
	}, `SELECT count(*) FROM projects WHERE name = 'renamed' AND quota_vcpus = 7`},
	{"create user", func(ctx context.Context, s *scene) error {
		_, err := s.store.CreateUser(ctx, record.NewUser{ID: space.NewID(space.PrefixUser), Org: s.org, Name: "second", Role: space.RoleAdmin, By: s.project, Request: record.Request{Key: "k"}})
		return err
	}, `SELECT count(*) FROM users WHERE name = 'second'`},
	{"set a user's role", func(ctx context.Context, s *scene) error {
		return s.store.SetUserRole(ctx, s.org, s.user, space.RoleDeveloper)
	}, `SELECT count(*) FROM users WHERE role = 'developer'`},
	{"create key", func(ctx context.Context, s *scene) error {
		k := s.newKey(space.RoleViewer)
		k.ID = "second_" + s.project // the same key again: it's refused when it's there
		if err := s.store.CreateKey(ctx, k); err == nil || space.CodeOf(err) == space.CodeUnavailable {
			return err
		}
		return nil
	}, `SELECT count(*) FROM api_keys WHERE id LIKE 'second_%'`},
	{"revoke key", func(ctx context.Context, s *scene) error {
		return s.store.RevokeKey(ctx, record.KeyScope{Org: s.org}, s.key.ID)
	}, `SELECT count(*) FROM events WHERE type = 'key.revoked'`},
	{"ensure project", func(ctx context.Context, s *scene) error {
		_, err := s.store.EnsureProject(ctx, s.name+"2", "first")
		return err
	}, `SELECT count(*) FROM projects p JOIN orgs o ON o.id = p.org WHERE p.name = 'first'`},
}

// TestFailureTable cuts each write path's connection at the commit, before and after it took effect.
func TestFailureTable(t *testing.T) {
	pool, fault := pgtest.Faulty(t, pgtest.URL(t))
	for _, w := range writes {
		t.Run(w.name+", without effect", func(t *testing.T) {
			s := newScene(t, pool)
			s.lose(t, w.name == "start sandbox")
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
			s.lose(t, w.name == "start sandbox")
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
