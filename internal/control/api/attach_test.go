package api_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

func wantCode(t *testing.T, err error, want space.Code) {
	t.Helper()
	if space.CodeOf(err) != want {
		t.Errorf("error %v, want code %s", err, want)
	}
}

func TestResolve(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	body := `{"argv":["cat","-"],"cwd":"/tmp","env":{"A":"1"},"user":"root","stdin":"aGk="}`
	made := decode[gen.SessionCreated](t, r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", body).want(t, 201))
	if want := "http://edge.test/v1/sessions/" + made.Session.Id + "/attach"; made.Attachment.Url != want || made.Session.State != gen.SessionStateCreated {
		t.Errorf("created: %+v, want the address %s", made, want)
	}
	var wg sync.WaitGroup
	for range 4 { // at once: all get the same
		wg.Go(func() {
			got, err := r.sessions.Resolve(t.Context(), made.Attachment.Token, made.Session.Id)
			if err != nil {
				t.Error(err)
				return
			}
			want := record.Spec{Argv: []string{"cat", "-"}, Cwd: "/tmp", Env: map[string]string{"A": "1"}, User: "root", Stdin: []byte("hi")}
			if diff := cmp.Diff(want, got.Session.Spec); diff != "" || got.Execution.Route.Execution != box.Execution.Id || got.Execution.Route.Check() != nil {
				t.Errorf("resolved %+v: %s", got, diff)
			}
		})
	}
	wg.Wait()
	path := "/v1/sandboxes/" + box.Id + "/sessions/" + made.Session.Id
	if s := decode[gen.Session](t, r.do(t, "GET", path, nil).want(t, 200)); s.State != gen.SessionStateStarted || s.StartedAt == nil {
		t.Errorf("after the first attach: %+v", s)
	}
	another := decode[gen.Attachment](t, r.do(t, "POST", path+"/attachments", nil).want(t, 201))
	if _, err := r.sessions.Resolve(t.Context(), another.Token, made.Session.Id); err != nil || another.Token == made.Attachment.Token {
		t.Errorf("another attachment: %v", err)
	}
}

func TestTokensOpenTheirSessionOnly(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	a, b := r.session(t, box.Id), r.session(t, box.Id)
	_, err := r.sessions.Resolve(t.Context(), a.Attachment.Token, b.Session.Id)
	wantCode(t, err, space.CodeForbidden)
	for _, token := range []string{"", r.key, "spaceatt_", "spaceatt_" + strings.Repeat("a", 52), strings.ToUpper(a.Attachment.Token), a.Attachment.Token + "a"} {
		_, err := r.sessions.Resolve(t.Context(), token, a.Session.Id)
		wantCode(t, err, space.CodeUnauthenticated)
	}
	r.sql(t, "UPDATE attachments SET expires_at = now() WHERE session = $1", a.Session.Id)
	_, err = r.sessions.Resolve(t.Context(), a.Attachment.Token, a.Session.Id)
	wantCode(t, err, space.CodeTokenExpired)
	r.sql(t, "UPDATE attachments SET revoked_at = now() WHERE session = $1", b.Session.Id)
	_, err = r.sessions.Resolve(t.Context(), b.Attachment.Token, b.Session.Id)
	wantCode(t, err, space.CodeUnauthenticated)
}

func TestSessionsEndWithTheirExecution(t *testing.T) {
	r := newRig(t)
	lost, deleted, moved := r.sandbox(t), r.sandbox(t), r.sandbox(t)
	made := map[string]gen.SessionCreated{}
	for _, box := range []string{lost.Id, deleted.Id, moved.Id} {
		made[box] = r.session(t, box)
		if _, err := r.sessions.Resolve(t.Context(), made[box].Attachment.Token, made[box].Session.Id); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(box string) error {
		_, err := r.sessions.Resolve(t.Context(), made[box].Attachment.Token, made[box].Session.Id)
		return err
	}
	r.node.end(lost.Id, space.ExecutionLost, space.Errorf(space.CodeExecutionLost, "the VMM was killed"))
	r.state(t, lost.Id, gen.SandboxStateLost)
	if target, err := r.sessions.Resolve(t.Context(), made[lost.Id].Attachment.Token, made[lost.Id].Session.Id); err != nil || !target.Kept {
		t.Errorf("of a lost one: %+v, %v", target, err)
	}
	unused := r.do(t, "POST", "/v1/sandboxes/"+lost.Id+"/sessions", `{"shell":"true"}`)
	unused.code(t, space.CodeExecutionLost)
	r.do(t, "DELETE", "/v1/sandboxes/"+deleted.Id+"?wait=30s", nil).want(t, 200)
	wantCode(t, resolve(deleted.Id), space.CodeExecutionLost)
	r.sql(t, `WITH e AS (INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid) VALUES ($1, $2, 2, 'node', $3, '') RETURNING id)
		UPDATE sandboxes SET execution = e.id FROM e WHERE sandboxes.id = $2`, space.NewID(space.PrefixExecution), moved.Id, nodeName)
	if target, err := r.sessions.Resolve(t.Context(), made[moved.Id].Attachment.Token, made[moved.Id].Session.Id); err != nil || !target.Kept {
		t.Errorf("of an earlier execution: %+v, %v", target, err)
	}
}

// TestAttachWaitsForTheSandbox attaches while the sandbox is being created: it's opened as soon as it runs.
func TestAttachWaitsForTheSandbox(t *testing.T) {
	r := newRig(t)
	r.template(t)
	pending := make(chan space.Route, 16)
	r.node.change(func() {
		r.node.start = func(route space.Route) (space.ExecutionState, *space.Error) {
			select {
			case pending <- route:
			default:
			}
			return space.ExecutionPending, nil
		}
	})
	o := decode[gen.Operation](t, r.do(t, "POST", "/v1/sandboxes", `{"template":"mini"}`).want(t, 202))
	made := r.session(t, o.Sandbox.Id)
	<-pending
	resolved := make(chan error, 1)
	go func() {
		_, err := r.sessions.Resolve(t.Context(), made.Attachment.Token, made.Session.Id)
		resolved <- err
	}()
	r.node.end(o.Sandbox.Id, space.ExecutionRunning, nil)
	if err := <-resolved; err != nil {
		t.Error(err)
	}
}
