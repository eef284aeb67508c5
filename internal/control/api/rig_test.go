package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/api"
	"github.com/space-platform/space/internal/control/dataplane"
	"github.com/space-platform/space/internal/control/events"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/operations"
	"github.com/space-platform/space/internal/control/projects"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/retention"
	"github.com/space-platform/space/internal/control/sandboxes"
	"github.com/space-platform/space/internal/control/sessions"
	"github.com/space-platform/space/internal/control/templates"
	"github.com/space-platform/space/internal/control/uploads"
	"github.com/space-platform/space/internal/control/users"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/envelope"
	"github.com/space-platform/space/internal/pgtest"
	"github.com/space-platform/space/internal/postgres"
	"github.com/space-platform/space/internal/public/publictest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

const nodeName = "test"

// rig is a control plane that serves on a real socket, on a real database, with a node that does as it's told.
type rig struct {
	pool     *pgxpool.Pool
	store    *postgres.Store
	boxes    *sandboxes.Sandboxes
	sessions *sessions.Sessions
	access   *access.Access
	parts    dataplane.Parts
	bell     *wake.Bell
	seen     *activity.Activity
	node     *obedientNode
	url      string
	key      string
	stop     context.CancelFunc // ends the server
	hurry    func()             // replaces the server by one that has little patience with clients
}

func newRig(t *testing.T) *rig {
	t.Helper()
	pool := pgtest.Pool(t)
	store, bell := postgres.New(pool).Sealing(envelope.New([32]byte{1})), new(wake.Bell)
	tpls := templates.New(store, bell, nodeName)
	boxes := sandboxes.New(store, tpls, bell)
	ups := uploads.New(store, bell, nodeName, "http://edge.test")
	seen := activity.New(store)
	r := &rig{
		seen: seen,
		pool: pool, store: store, bell: bell, boxes: boxes, sessions: sessions.New(store, boxes, tpls, seen, bell, "http://edge.test"),
		access: access.New(store, boxes, seen, bell, "http://edge.test"), node: newObedientNode(nodesync.NewNode(nodeName, store, seen, bell)),
	}
	r.parts = dataplane.Parts{
		Access: r.access, Sessions: r.sessions, Creator: api.TokenSessions{Access: r.access, Sessions: r.sessions}, Templates: tpls, Uploads: ups,
	}
	store.Announce(func(project string) { bell.Ring(wake.Events(project)) })
	all := api.Parts{
		Recognizer: store, Bell: bell, Keys: keys.New(store, bell), Projects: projects.New(store), Users: users.New(store), Events: events.New(store, bell),
		Sandboxes: boxes, Sessions: r.sessions, Garbage: retention.NewCollector(store, bell), Templates: tpls, Uploads: ups, Access: r.access, Meter: r.node.sync, Operations: operations.New(store, bell),
		Database: store, Cursors: envelope.New([32]byte{2}), Node: nodeName, Version: "test",
	}
	r.serve(t, api.New(all))
	r.hurry = func() {
		r.stop()
		r.listen(t, func(ctx context.Context, l net.Listener) error {
			return api.ServeHurried(ctx, l, api.NewHurried(all, publictest.BodyTime), publictest.Times())
		})
	}
	r.key = r.bootstrap(t)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() { r.node.run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

func (r *rig) serve(t *testing.T, h http.Handler) {
	t.Helper()
	r.listen(t, func(ctx context.Context, l net.Listener) error { return api.Serve(ctx, l, h) })
}

func (r *rig) listen(t *testing.T, serve func(context.Context, net.Listener) error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
}

func (r *rig) bootstrap(t *testing.T) string {
	t.Helper()
	issued, err := keys.Bootstrap(t.Context(), r.store, "test")
	if err != nil {
		t.Fatal(err)
	}
	return issued.Key
}

// stranger is a key of another project.
func (r *rig) stranger(t *testing.T) string {
	t.Helper()
	project, err := r.store.EnsureProject(t.Context(), "other", "other")
	if err != nil {
		t.Fatal(err)
	}
	return r.keyOf(t, project, space.RoleOwner)
}

// keyOf makes a key of a project, past the API.
func (r *rig) keyOf(t *testing.T, project string, role space.Role) string {
	t.Helper()
	k := record.Key{Org: r.orgOf(t, project), Project: project, Granted: space.RoleOwner}
	_, secret, err := keys.New(r.store, r.bell).Create(t.Context(), k, keys.Create{Name: "test", Role: &role})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func (r *rig) orgOf(t *testing.T, project string) (org string) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), "SELECT org FROM projects WHERE id = $1", project).Scan(&org); err != nil {
		t.Fatal(err)
	}
	return org
}

// reply is an answer of the API.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// problem reads the reply as a problem, and asserts that it is one.
func (a reply) problem(t *testing.T) gen.Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d with content type %q: %s", a.status, got, a.body)
	}
	p := decode[gen.Problem](t, a)
	if p.Status != a.status || p.RequestId == nil || *p.RequestId != a.header.Get("X-Request-Id") {
		t.Fatalf("problem doesn't agree with its answer: status %d, %s", a.status, a.body)
	}
	return p
}

func decode[T any](t *testing.T, a reply) T {
	t.Helper()
	var out T
	if err := json.Unmarshal(a.body, &out); err != nil {
		t.Fatalf("read an answer: %v: %s", err, a.body)
	}
	return out
}

// do sends a request with the rig's key; body may be nil, a string or anything that JSON can say.
func (r *rig) do(t *testing.T, method, path string, body any, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, bodyOf(t, body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	a := send(t, req)
	if a.status >= 400 {
		if code := a.problem(t).Code; listed(t).Unlisted(req, code) {
			t.Errorf("%s %s answers with %s, which the contract doesn't list for it", method, req.URL.Path, code)
		}
	}
	return a
}

func bodyOf(t *testing.T, body any) io.Reader {
	t.Helper()
	switch b := body.(type) {
	case nil:
		return nil
	case string:
		return bytes.NewReader([]byte(b))
	default:
		out, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewReader(out)
	}
}

func send(t *testing.T, req *http.Request) reply {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: b}
}

// want asserts a status and returns the reply.
func (a reply) want(t *testing.T, status int) reply {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// accepted asserts that a lifecycle change was taken; it may have ended by now.
func (a reply) accepted(t *testing.T) gen.Operation {
	t.Helper()
	if a.status != 201 && a.status != 202 {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	return decode[gen.Operation](t, a)
}

// template builds mini.
func (r *rig) template(t *testing.T) gen.Template {
	t.Helper()
	return *decode[gen.Operation](t, r.do(t, "POST", "/v1/templates?wait=30s", `{"recipe":"mini"}`).want(t, 201)).Template
}

// sandbox creates a running sandbox of mini.
func (r *rig) sandbox(t *testing.T) gen.Sandbox {
	t.Helper()
	r.template(t)
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes?wait=30s", `{"template":"mini"}`).want(t, 201))
	if o.Status != gen.OperationStatusSucceeded || o.Sandbox == nil || o.Sandbox.State != gen.SandboxStateRunning {
		t.Fatalf("the sandbox doesn't run: %+v", o)
	}
	return *o.Sandbox
}

func (r *rig) session(t *testing.T, sandbox string) gen.SessionCreated {
	t.Helper()
	return decode[gen.SessionCreated](t, r.do(t, "POST", "/v1/sandboxes/"+sandbox+"/sessions", `{"shell":"true"}`).want(t, 201))
}

// state waits until a sandbox is in a state.
func (r *rig) state(t *testing.T, sandbox string, want gen.SandboxState) gen.Sandbox {
	t.Helper()
	rung, stop := r.bell.Listen(sandbox)
	defer stop()
	deadline := time.After(20 * time.Second)
	for {
		s := decode[gen.Sandbox](t, r.do(t, "GET", "/v1/sandboxes/"+sandbox, nil).want(t, 200))
		if s.State == want {
			return s
		}
		select {
		case <-deadline:
			t.Fatalf("sandbox %s is %s, want %s", sandbox, s.State, want)
		case <-rung:
		}
	}
}

// sql changes a row behind the control plane's back.
func (r *rig) sql(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// code asserts a problem's code and the status that belongs to it.
func (a reply) code(t *testing.T, want space.Code) gen.Problem {
	t.Helper()
	p := a.problem(t)
	if p.Code != string(want) || a.status != want.HTTPStatus() {
		t.Fatalf("code %s with status %d, want %s with %d: %s", p.Code, a.status, want, want.HTTPStatus(), a.body)
	}
	return p
}
