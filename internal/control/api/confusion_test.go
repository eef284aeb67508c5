package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/activity"
	"github.com/space-platform/space/internal/control/dataplane"
	"github.com/space-platform/space/internal/control/nodesync"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/peer"
)

// edge is what an edge can ask, over a real socket.
type edge struct {
	controlv1connect.ControlServiceClient
	data controlv1connect.DataPlaneServiceClient
}

// serveEdge serves the data plane's questions to the peer with that uid.
func (r *rig) serveEdge(t *testing.T, uid int) edge {
	t.Helper()
	service := nodesync.NewService(nodesync.NewNode("other", r.store, activity.New(r.store), new(wake.Bell)), r.sessions, nodesync.Peers{Node: os.Geteuid(), Edge: uid})
	service.Mount(dataplane.New(r.parts, uid).Handler())
	socket := filepath.Join(t.TempDir(), "s")
	l, err := service.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Serve(ctx, l) }()
	client := peer.Client(socket, os.Geteuid())
	t.Cleanup(func() {
		client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return edge{controlv1connect.NewControlServiceClient(client, "http://control"), controlv1connect.NewDataPlaneServiceClient(client, "http://control")}
}

// ask asks and reads the error as the edge does.
func ask[Q, A any](t *testing.T, do func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q) (*A, error) {
	t.Helper()
	a, err := do(t.Context(), connect.NewRequest(q))
	if err != nil {
		return nil, peer.FromConnect(err)
	}
	return a.Msg, nil
}

func (r *rig) token(t *testing.T, sandbox string) gen.SandboxTokenCreated {
	t.Helper()
	return decode[gen.SandboxTokenCreated](t, r.do(t, "POST", "/v1/sandboxes/"+sandbox+"/tokens", nil).want(t, 201))
}

// signed is a file URL as the edge takes it apart.
func (r *rig) signed(t *testing.T, sandbox, operation string) *controlv1.SignedURL {
	t.Helper()
	made := decode[gen.FileURL](t, r.do(t, "POST", "/v1/sandboxes/"+sandbox+"/file-urls", `{"path":"/a b/ü?&","operation":"`+operation+`","user":"root"}`).want(t, 201))
	u, err := url.Parse(made.Url)
	if err != nil || u.Scheme+"://"+u.Host+u.Path != "http://edge.test/v1/sandboxes/"+sandbox+"/files/content" {
		t.Fatalf("%s, %v", made.Url, err)
	}
	q := u.Query()
	expires, err := strconv.ParseInt(q.Get("expires"), 10, 64)
	if err != nil || expires != made.ExpiresAt.Unix() || len(q) != 4 {
		t.Fatalf("%s, %v", made.Url, err)
	}
	return &controlv1.SignedURL{Path: q.Get("path"), Operation: operation, User: q.Get("user"), ExpiresUnix: expires, Signature: q.Get("signature")}
}

// TestMaterialsDoNotMix shows every material to everything that takes one. What opens what is in the table; all else is refused, and no
// refusal repeats a material.
func TestMaterialsDoNotMix(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box, other := r.sandbox(t), r.sandbox(t)
	session, sibling, foreign := r.session(t, box.Id), r.session(t, box.Id), r.session(t, other.Id)
	for _, s := range []gen.SessionCreated{session, sibling, foreign} {
		if _, err := r.sessions.Resolve(t.Context(), s.Attachment.Token, s.Session.Id); err != nil {
			t.Fatal(err)
		}
	}
	upload := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	otherUpload := decode[gen.Upload](t, r.do(t, "POST", "/v1/uploads", `{}`).want(t, 201))
	revoked, expired := r.token(t, box.Id), r.token(t, box.Id)
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"/tokens/"+revoked.Token.Id, nil).want(t, 204)
	r.sql(t, "UPDATE sandbox_tokens SET expires_at = now() WHERE id = $1", expired.Token.Id)
	signed := r.signed(t, box.Id, "read")
	own := r.token(t, box.Id)
	materials := map[string]string{
		"nothing": "", "key": r.key, "a stranger's key": r.stranger(t), "attachment": session.Attachment.Token, "sibling's attachment": sibling.Attachment.Token,
		"other's attachment": foreign.Attachment.Token, "token": own.Secret, "other's token": r.token(t, other.Id).Secret, "revoked token": revoked.Secret,
		"expired token": expired.Secret, "upload": upload.Token, "other upload": otherUpload.Token, "signature": signed.Signature,
		"an unknown attachment": "spaceatt_" + strings.Repeat("a", 52), "an unknown token": "spacesbx_" + strings.Repeat("a", 52),
		"the token's id": own.Token.Id, "a key of the other form": "e2b_" + strings.Repeat("a", 40), "the token in capitals": strings.ToUpper(own.Secret),
		"a longer token": own.Secret + "a", "a token with a line": own.Secret + "\n", "the session's id": session.Session.Id, "the sandbox's id": box.Id,
	}
	places := map[string]struct {
		open []string
		show func(material string) error
	}{
		"attach": {[]string{"attachment", "token"}, func(m string) error {
			_, err := ask(t, e.ResolveAttachment, &controlv1.ResolveAttachmentRequest{Token: m, Session: session.Session.Id})
			return err
		}},
		"a started session": {[]string{"attachment", "token"}, func(m string) error {
			_, err := ask(t, e.data.ResolveSession, &controlv1.ResolveSessionRequest{Token: m, Session: session.Session.Id})
			return err
		}},
		"a sandbox": {[]string{"token"}, func(m string) error {
			_, err := ask(t, e.data.ResolveSandbox, &controlv1.ResolveSandboxRequest{Token: m, Sandbox: box.Id})
			return err
		}},
		"a file": {[]string{"signature"}, func(m string) error {
			u := &controlv1.SignedURL{Path: signed.Path, Operation: signed.Operation, User: signed.User, ExpiresUnix: signed.ExpiresUnix, Signature: m}
			_, err := ask(t, e.data.ResolveSandbox, &controlv1.ResolveSandboxRequest{Signed: u, Sandbox: box.Id})
			return err
		}},
		"a new session": {[]string{"token"}, func(m string) error {
			_, err := ask(t, e.data.CreateSession, &controlv1.CreateSessionRequest{Token: m, Sandbox: box.Id, Body: []byte(`{"shell":"id"}`)})
			return err
		}},
		"an upload": {[]string{"upload"}, func(m string) error {
			_, err := ask(t, e.data.ResolveUpload, &controlv1.ResolveUploadRequest{Token: m, Upload: upload.Id})
			return err
		}},
		"the management API": {[]string{"key"}, func(m string) error {
			a := r.do(t, "GET", "/v1/sandboxes/"+box.Id, nil, "Authorization", strings.TrimRight("Bearer "+strings.TrimRight(m, "\n"), " "))
			if a.status == 200 && m == strings.TrimRight(m, "\n") {
				return nil
			}
			p := a.problem(t)
			return space.Errorf(space.Code(p.Code), "%s", a.body)
		}},
	}
	for place, x := range places {
		for name, material := range materials {
			err := x.show(material)
			if slices.Contains(x.open, name) {
				if err != nil {
					t.Errorf("%s doesn't open %s: %v", name, place, err)
				}
				continue
			}
			refusals := []space.Code{space.CodeUnauthenticated, space.CodeForbidden, space.CodeTokenExpired}
			if place == "the management API" && name == "a stranger's key" {
				refusals = []space.Code{space.CodeNotFound}
			}
			if !slices.Contains(refusals, space.CodeOf(err)) {
				t.Errorf("%s shown for %s: %v", name, place, err)
			}
			if err != nil && len(material) > 30 && !strings.Contains(name, "id") && strings.Contains(err.Error(), strings.TrimSpace(material)) {
				t.Errorf("the refusal of %s for %s repeats it: %v", name, place, err)
			}
		}
	}
}

// TestOnlyTheEdgeAsks has another peer ask what is the edge's.
func TestOnlyTheEdgeAsks(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, 65534)
	for name, err := range map[string]error{
		"sandbox": second(ask(t, e.data.ResolveSandbox, &controlv1.ResolveSandboxRequest{})), "session": second(ask(t, e.data.ResolveSession, &controlv1.ResolveSessionRequest{})),
		"create": second(ask(t, e.data.CreateSession, &controlv1.CreateSessionRequest{})), "upload": second(ask(t, e.data.ResolveUpload, &controlv1.ResolveUploadRequest{})),
		"ended": second(ask(t, e.data.FindEnded, &controlv1.FindEndedRequest{})),
	} {
		if space.CodeOf(err) != space.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestSignedURLsSayOneThing changes each part of a URL: none of them opens anything.
func TestSignedURLsSayOneThing(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box, other := r.sandbox(t), r.sandbox(t)
	resolve := func(sandbox string, u *controlv1.SignedURL, token string) error {
		a, err := ask(t, e.data.ResolveSandbox, &controlv1.ResolveSandboxRequest{Sandbox: sandbox, Signed: u, Token: token})
		if err == nil && a.Route.Sandbox != sandbox {
			t.Errorf("resolved to %v", a.Route)
		}
		return err
	}
	good := r.signed(t, box.Id, "read")
	if good.Path != "/a b/ü?&" || good.User != "root" {
		t.Errorf("signed %+v", good)
	}
	if err := resolve(box.Id, good, ""); err != nil {
		t.Errorf("as it was signed: %v", err)
	}
	if err := resolve(box.Id, good, r.token(t, box.Id).Secret); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("with a token as well: %v", err)
	}
	r.signed(t, other.Id, "read") // has a key of its own
	for name, x := range map[string]struct {
		sandbox string
		change  func(*controlv1.SignedURL)
	}{
		"another sandbox":    {other.Id, func(*controlv1.SignedURL) {}},
		"a missing sandbox":  {space.NewID(space.PrefixSandbox), func(*controlv1.SignedURL) {}},
		"no sandbox":         {"", func(*controlv1.SignedURL) {}},
		"another path":       {box.Id, func(u *controlv1.SignedURL) { u.Path += "x" }},
		"another operation":  {box.Id, func(u *controlv1.SignedURL) { u.Operation = "write" }},
		"another user":       {box.Id, func(u *controlv1.SignedURL) { u.User = "" }},
		"a later time":       {box.Id, func(u *controlv1.SignedURL) { u.ExpiresUnix++ }},
		"an earlier time":    {box.Id, func(u *controlv1.SignedURL) { u.ExpiresUnix = 1 }},
		"no signature":       {box.Id, func(u *controlv1.SignedURL) { u.Signature = "" }},
		"half a signature":   {box.Id, func(u *controlv1.SignedURL) { u.Signature = u.Signature[:21] }},
		"padded signature":   {box.Id, func(u *controlv1.SignedURL) { u.Signature += "=" }},
		"parts that changed": {box.Id, func(u *controlv1.SignedURL) { u.Path, u.User = u.Path+"root", "" }},
		"another signature":  {box.Id, func(u *controlv1.SignedURL) { u.Signature = strings.Repeat("A", 43) }},
	} {
		changed := &controlv1.SignedURL{Path: good.Path, Operation: good.Operation, User: good.User, ExpiresUnix: good.ExpiresUnix, Signature: good.Signature}
		x.change(changed)
		if err := resolve(x.sandbox, changed, ""); space.CodeOf(err) != space.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	// It survives stop and start, waits for neither, and ends with the key.
	r.verb(t, box.Id, "stop")
	if err := resolve(box.Id, good, ""); space.CodeOf(err) != space.CodeConflict {
		t.Errorf("stopped: %v", err)
	}
	r.verb(t, box.Id, "start")
	if err := resolve(box.Id, good, ""); err != nil {
		t.Errorf("started again: %v", err)
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"/file-urls", nil).want(t, 204)
	if err := resolve(box.Id, good, ""); space.CodeOf(err) != space.CodeUnauthenticated {
		t.Errorf("revoked: %v", err)
	}
	if again := r.signed(t, box.Id, "read"); again.Signature == good.Signature || resolve(box.Id, again, "") != nil {
		t.Error("the next URL has the old key")
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+other.Id+"?wait=30s", nil).want(t, 200)
}

// TestTokensLast has a sandbox token through stop, start and delete.
func TestTokensLast(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box := r.sandbox(t)
	token := r.token(t, box.Id)
	if token.Url != "http://edge.test/v1/sandboxes/"+box.Id || !strings.HasPrefix(token.Secret, "spacesbx_") {
		t.Errorf("%+v", token)
	}
	resolve := func() (*controlv1.ResolveSandboxResponse, error) {
		return ask(t, e.data.ResolveSandbox, &controlv1.ResolveSandboxRequest{Sandbox: box.Id, Token: token.Secret})
	}
	first, err := resolve()
	if err != nil || first.Route.Execution != box.Execution.Id || first.Route.Epoch != 1 {
		t.Errorf("%v, %v", first, err)
	}
	r.verb(t, box.Id, "stop")
	_, err = resolve()
	wantCode(t, err, space.CodeConflict)
	r.verb(t, box.Id, "start")
	if again, err := resolve(); err != nil || again.Route.Epoch != 2 {
		t.Errorf("%v, %v", again, err)
	}
	r.node.end(box.Id, space.ExecutionLost, nil)
	r.state(t, box.Id, gen.SandboxStateLost)
	_, err = resolve()
	wantCode(t, err, space.CodeExecutionLost)
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"?wait=30s", nil).want(t, 200)
	_, err = resolve()
	wantCode(t, err, space.CodeExecutionLost)
}

// TestResolveWaitsForTheStart asks while a sandbox starts: the answer comes when it runs.
func TestResolveWaitsForTheStart(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box := r.sandbox(t)
	token := r.token(t, box.Id)
	r.verb(t, box.Id, "stop")
	r.node.change(func() {
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionPending, nil }
	})
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/start", nil).want(t, 202)
	r.state(t, box.Id, gen.SandboxStateStarting)
	resolved := make(chan error, 1)
	go func() {
		_, err := e.data.ResolveSandbox(t.Context(), connect.NewRequest(&controlv1.ResolveSandboxRequest{Sandbox: box.Id, Token: token.Secret}))
		resolved <- err
	}()
	r.node.change(func() {
		for route, x := range r.node.executions {
			if route.Epoch == 2 {
				x.State = space.ExecutionRunning
				r.node.executions[route] = x
			}
		}
		r.node.start = func(space.Route) (space.ExecutionState, *space.Error) { return space.ExecutionRunning, nil }
	})
	if err := <-resolved; err != nil {
		t.Error(err)
	}
}

// TestSessionsToAttachTo: with the creation of a session comes what its first attach would be answered with, if the sandbox runs.
func TestSessionsToAttachTo(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box := r.sandbox(t)
	token := r.token(t, box.Id).Secret
	create := func(key string, attach bool) *controlv1.CreateSessionResponse {
		t.Helper()
		a, err := ask(t, e.data.CreateSession, &controlv1.CreateSessionRequest{
			Sandbox: box.Id, Token: token, Body: []byte(`{"argv":["cat","-"],"env":{"A":"1"},"stdin":"aGk="}`), IdempotencyKey: key, Attach: attach,
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	made := create("k", true)
	resolved, err := ask(t, e.ResolveAttachment, &controlv1.ResolveAttachmentRequest{Token: token, Session: made.GetSession()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resolved, made.GetTarget(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if string(made.GetTarget().GetSpec().GetStdin()) != "hi" || made.GetTarget().GetRoute().GetExecution() != box.Execution.Id {
		t.Errorf("%v", made.GetTarget())
	}
	s := decode[gen.Session](t, r.do(t, "GET", "/v1/sandboxes/"+box.Id+"/sessions/"+made.GetSession(), nil).want(t, 200))
	if s.State != gen.SessionStateStarted || s.StartedAt == nil || strings.Contains(string(made.GetBody()), "aGk=") {
		t.Errorf("it's %+v, and was told as %s", s, made.GetBody())
	}
	if again := create("k", true); again.GetSession() != made.GetSession() || again.GetTarget() != nil {
		t.Errorf("again: %v", again)
	}
	later := create("", false)
	s = decode[gen.Session](t, r.do(t, "GET", "/v1/sandboxes/"+box.Id+"/sessions/"+later.GetSession(), nil).want(t, 200))
	if later.GetTarget() != nil || s.State != gen.SessionStateCreated {
		t.Errorf("one that nobody attaches to at once: %v, %+v", later, s)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/pause?wait=10s", nil).want(t, 200)
	r.sql(t, "UPDATE sandboxes SET auto_wake = true WHERE id = $1", box.Id)
	if asleep := create("", true); asleep.GetTarget() != nil || asleep.GetSession() == "" {
		t.Errorf("in a sandbox that is being woken: %v", asleep)
	}
}

// TestSessionsByToken creates sessions with a sandbox token: as the API does, with the API's checks.
func TestSessionsByToken(t *testing.T) {
	r := newRig(t)
	e := r.serveEdge(t, os.Geteuid())
	box, other := r.sandbox(t), r.sandbox(t)
	token, second := r.token(t, box.Id).Secret, r.token(t, other.Id).Secret
	create := func(token, sandbox, body, key string) (gen.SessionCreated, error) {
		var out gen.SessionCreated
		a, err := ask(t, e.data.CreateSession, &controlv1.CreateSessionRequest{Sandbox: sandbox, Token: token, Body: []byte(body), IdempotencyKey: key})
		if err == nil {
			err = json.Unmarshal(a.Body, &out)
		}
		return out, err
	}
	made, err := create(token, box.Id, `{"shell":"id","tty":{"rows":2,"cols":3}}`, "k")
	if err != nil || made.Session.Sandbox != box.Id || made.Session.Tty.Cols != 3 {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, err := create(token, box.Id, `{"tty":{"cols":3,"rows":2},"shell":"id"}`, "k"); err != nil || !cmp.Equal(again, made) {
		t.Errorf("again: %s, %v", cmp.Diff(made, again), err)
	}
	_, err = create(token, box.Id, `{"shell":"date"}`, "k")
	wantCode(t, err, space.CodeIdempotencyMismatch)
	// The key is the sandbox's own: neither another sandbox's nor the project's keys are in its way, and it isn't in theirs.
	if theirs, err := create(second, other.Id, `{"shell":"id"}`, "k"); err != nil || theirs.Session.Id == made.Session.Id {
		t.Errorf("another sandbox's: %+v, %v", theirs, err)
	}
	r.do(t, "POST", "/v1/sandboxes/"+box.Id+"/sessions", `{"shell":"date"}`, "Idempotency-Key", "k").want(t, 201)
	for _, x := range []struct {
		body  string
		key   string
		code  space.Code
		field string
	}{
		{"", "", space.CodeInvalid, ""}, {`[]`, "", space.CodeInvalid, ""}, {`{"shell":"a","x":1}`, "", space.CodeInvalid, "x"}, {`{"shell":""}`, "", space.CodeInvalid, "shell"},
		{`{"shell":"a"}`, "a b", space.CodeInvalid, "Idempotency-Key"}, {`{"shell":"` + strings.Repeat("a", 3<<20) + `"}`, "", space.CodeTooLarge, ""},
	} {
		_, err := create(token, box.Id, x.body, x.key)
		if wantCode(t, err, x.code); x.field != "" && !strings.Contains(fmt.Sprint(err), x.field) {
			t.Errorf("%.40s: %v", x.body, err)
		}
	}
	// What a token has made ends with the token.
	short := r.token(t, box.Id)
	derived, err := create(short.Secret, box.Id, `{"shell":"id"}`, "")
	if err != nil {
		t.Fatal(err)
	}
	r.do(t, "DELETE", "/v1/sandboxes/"+box.Id+"/tokens/"+short.Token.Id, nil).want(t, 204)
	_, err = ask(t, e.ResolveAttachment, &controlv1.ResolveAttachmentRequest{Token: derived.Attachment.Token, Session: derived.Session.Id})
	wantCode(t, err, space.CodeUnauthenticated)
	// What the first attach starts can then be found.
	resolve := func(token string) (*controlv1.ResolveSessionResponse, error) {
		return ask(t, e.data.ResolveSession, &controlv1.ResolveSessionRequest{Session: made.Session.Id, Token: token})
	}
	_, err = resolve(token)
	wantCode(t, err, space.CodeConflict)
	a, err := ask(t, e.ResolveAttachment, &controlv1.ResolveAttachmentRequest{Token: token, Session: made.Session.Id})
	if err != nil || a.Spec.Tty.Rows != 2 || !a.Spec.OpenStdin {
		t.Fatalf("%v, %v", a, err)
	}
	for _, m := range []string{token, made.Attachment.Token} {
		if found, err := resolve(m); err != nil || found.Route.Execution != box.Execution.Id || found.Session != made.Session.Id {
			t.Errorf("%v, %v", found, err)
		}
	}
}

// TestSameKeySameToken repeats the creation of a token.
func TestSameKeySameToken(t *testing.T) {
	r := newRig(t)
	box := r.sandbox(t)
	path := "/v1/sandboxes/" + box.Id + "/tokens"
	make := func(body any) gen.SandboxTokenCreated {
		t.Helper()
		return decode[gen.SandboxTokenCreated](t, r.do(t, "POST", path, body, "Idempotency-Key", "k").want(t, 201))
	}
	first := make(`{"name":"a"}`)
	if again := make(`{"name":"a"}`); !cmp.Equal(again, first) {
		t.Error(cmp.Diff(first, again))
	}
	r.do(t, "POST", path, `{"name":"b"}`, "Idempotency-Key", "k").code(t, space.CodeIdempotencyMismatch)
	if other := r.token(t, box.Id); other.Secret == first.Secret {
		t.Error("another request got the same token")
	}
	list := decode[gen.SandboxTokenPage](t, r.do(t, "GET", path, nil).want(t, 200))
	if len(list.Items) != 2 || list.Items[1].Id != first.Token.Id || *list.Items[1].Name != "a" {
		t.Errorf("list: %+v", list)
	}
	r.key = r.bootstrap(t)
	r.do(t, "POST", path, `{"name":"a"}`, "Idempotency-Key", "k").code(t, space.CodeConflict)
}
