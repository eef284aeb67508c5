package edge

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func (r *rig) sessionPath(rest string) string { return "/v1/sessions/" + r.session + rest }

func TestCreateSession(t *testing.T) {
	r := newRig(t)
	at := "/v1/sandboxes/" + r.sandbox + "/sessions"
	body := `{"shell":"cat","stdin":"` + repeat("a", 1<<20) + `"}`
	if got := r.ask(t, "POST", at, strings.NewReader(body), "Idempotency-Key", "k1", "Content-Type", "application/json; charset=utf-8"); got.StatusCode != 201 || got.body(t) != `{"session":{},"attachment":{}}` {
		t.Errorf("%s", got.Status)
	}
	want := &controlv1.CreateSessionRequest{Sandbox: r.sandbox, Token: r.box, Body: []byte(body), IdempotencyKey: "k1"}
	if got := r.asked[0].(*controlv1.CreateSessionRequest); !proto.Equal(got, want) {
		t.Errorf("%d bytes, key %q, sandbox %s", len(got.GetBody()), got.GetIdempotencyKey(), got.GetSandbox())
	}
	r.ask(t, "POST", at, strings.NewReader(repeat("a", maxSessionJSON+1))).fails(t, space.CodeTooLarge, "")
	r.ask(t, "POST", at, io.MultiReader(strings.NewReader(repeat("a", maxSessionJSON+1)))).fails(t, space.CodeTooLarge, "")
	r.ask(t, "POST", at, strings.NewReader("{}"), "Idempotency-Key", "a b").fails(t, space.CodeInvalid, "Idempotency-Key")
	r.ask(t, "POST", at, strings.NewReader("{}"), "Content-Type", "text/plain").fails(t, space.CodeMediaType, "Content-Type")
	r.plane = func(any) error { return space.FieldErrorf("argv", "give argv or shell") }
	r.ask(t, "POST", at, strings.NewReader("{}")).fails(t, space.CodeInvalid, "argv")
}

// createAndAttach creates a session and attaches to it in one request.
func (r *rig) createAndAttach(t *testing.T) *client {
	t.Helper()
	c := r.ask(t, "POST", "/v1/sandboxes/"+r.sandbox+"/sessions", strings.NewReader("{}"), "Accept", "application/x-other, text/event-stream; q=0.9")
	if c.StatusCode != 201 || c.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %s", c.Status, c.Header.Get("Content-Type"))
	}
	if e := c.mustNext(t); e != (sse{name: "created", data: `{"session":{},"attachment":{}}`}) {
		t.Fatalf("%+v", e)
	}
	return c
}

// TestCreateAndAttach: one request to the control plane, one to the node, and the events of an attach.
func TestCreateAndAttach(t *testing.T) {
	r := newRig(t)
	r.attach = sends(nil, started(), output(stdout, 0, "hello\n"), exit(&sessionv1.Exit{Offset: 6}))
	want := []sse{
		{"0", "started", `{"at":"1970-01-01T00:00:00Z"}`}, {"6", "stdout", `{"data":"aGVsbG8K"}`}, {"6", "exit", `{"code":0}`},
	}
	for _, asleep := range []bool{false, true} { // what isn't told with the creation is asked for
		r.asleep, r.asked, r.resolved, r.attached = asleep, nil, 0, nil
		if diff := cmp.Diff(want, r.createAndAttach(t).rest(t), cmp.AllowUnexported(sse{})); diff != "" {
			t.Error(diff)
		}
		made := r.asked[0].(*controlv1.CreateSessionRequest)
		if len(r.asked) != 1 || !made.GetAttach() || len(r.attached) != 1 || (r.resolved == 1) != asleep {
			t.Fatalf("asked %v, resolved %d, attached %d", r.asked, r.resolved, len(r.attached))
		}
		if a := r.attached[0]; a.GetSession() != r.session || a.GetResume() || (a.GetSpec().GetArgv()[0] == "created") == asleep {
			t.Errorf("%+v", a)
		}
	}
	for _, accept := range []string{"application/json", "*/*", "text/plain"} {
		r.asked = nil
		got := r.ask(t, "POST", "/v1/sandboxes/"+r.sandbox+"/sessions", strings.NewReader("{}"), "Accept", accept)
		if got.Header.Get("Content-Type") != "application/json" || r.asked[0].(*controlv1.CreateSessionRequest).GetAttach() {
			t.Errorf("with Accept: %s it's %s", accept, got.Header.Get("Content-Type"))
		}
	}
}

// TestACreatedSessionOutlivesItsBody: the time for a body isn't the stream's.
func TestACreatedSessionOutlivesItsBody(t *testing.T) {
	r := newRig(t)
	r.timing.body = 20 * time.Millisecond
	ended := make(chan struct{})
	r.attach = func(ctx context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		if err := send(started()); err != nil {
			return err
		}
		select { // nothing to wait for but time: the stream mustn't end in it
		case <-time.After(10 * r.timing.body):
		case <-ctx.Done():
			close(ended)
			return ctx.Err()
		}
		return send(exit(&sessionv1.Exit{}))
	}
	events := r.createAndAttach(t).rest(t)
	if len(events) != 2 || events[1].name != "exit" {
		t.Errorf("%+v", events)
	}
	select {
	case <-ended:
		t.Error("the stream was cut off")
	default:
	}
}

// TestWhatGoesWrongAfterACreation is told by an event: the client has what it attaches with, and its attach is answered with the reason.
func TestWhatGoesWrongAfterACreation(t *testing.T) {
	r := newRig(t)
	stale := true
	r.attach = func(_ context.Context, a *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		if stale && a.GetSpec().GetArgv()[0] == "created" {
			return space.Errorf(space.CodeRouteStale, "it's another execution now")
		}
		return send(exit(&sessionv1.Exit{}))
	}
	if events := r.createAndAttach(t).rest(t); len(events) != 1 || events[0].name != "exit" || r.resolved != 1 {
		t.Errorf("of a route that has become stale: %+v, resolved %d times", events, r.resolved)
	}
	r.asleep = true
	r.resolve = func(*controlv1.ResolveAttachmentRequest) error {
		return space.Errorf(space.CodeConflict, "it's stopped")
	}
	if diff := cmp.Diff([]sse{{name: "ended", data: `{"reason":"interrupted"}`}}, r.createAndAttach(t).rest(t), cmp.AllowUnexported(sse{})); diff != "" {
		t.Error(diff)
	}
	r.do(t, r.request(t)).fails(t, space.CodeConflict, "")
}

func TestLiveSessions(t *testing.T) {
	r := newRig(t)
	at := timestamppb.New(noon)
	r.call = func(_ context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		return s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Sessions{Sessions: &sandboxv1.Sessions{Sessions: []*sandboxv1.Session{
			{Session: "ses_1", Pid: 7, Argv: []string{"sh"}, User: "user", Tty: true, Started: at, Output: 5},
			{Session: "ses_2", Argv: []string{"a"}, Started: at, Ended: true, EndedAt: at},
			{Session: "ses_3", Argv: []string{"a"}, Started: at, Ended: true, Signal: 9, EndedAt: at, TimedOut: true},
			{Session: "ses_4", Ended: true, Code: 127, Error: "no such program"},
		}}}})
	}
	c := r.ask(t, "GET", "/v1/sandboxes/"+r.sandbox+"/live-sessions", nil)
	want := strings.Join([]string{
		`{"items":[{"argv":["sh"],"id":"ses_1","output_bytes":5,"pid":7,"started_at":"2026-01-01T12:00:00.000005Z","state":"running","tty":true,"user":"user"}`,
		`{"argv":["a"],"code":0,"ended_at":"2026-01-01T12:00:00.000005Z","id":"ses_2","output_bytes":0,"started_at":"2026-01-01T12:00:00.000005Z","state":"ended","tty":false}`,
		`{"argv":["a"],"ended_at":"2026-01-01T12:00:00.000005Z","id":"ses_3","output_bytes":0,"signal":"SIGKILL","started_at":"2026-01-01T12:00:00.000005Z","state":"ended","timed_out":true,"tty":false}`,
		`{"argv":[],"code":127,"error":"no such program","id":"ses_4","output_bytes":0,"state":"ended","tty":false}]}` + "\n",
	}, ",")
	if got := c.body(t); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

func TestSignalsAndSizes(t *testing.T) {
	r := newRig(t)
	r.call = nothing
	for _, token := range []string{r.token, r.box} {
		r.ask(t, "POST", r.sessionPath("/signal"), strings.NewReader(`{"signal":"SIGINT"}`), "Authorization", "Bearer "+token).want(t, 204, nil)
		if diff := cmp.Diff(&sandboxv1.Action{Action: &sandboxv1.Action_Signal{Signal: &sandboxv1.Signal{Session: r.session, Signal: 2}}}, r.lastAction(t), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		r.ask(t, "POST", r.sessionPath("/resize"), strings.NewReader(`{"rows":40,"cols":1000}`), "Authorization", "Bearer "+token).want(t, 204, nil)
		if diff := cmp.Diff(&sandboxv1.Action{Action: &sandboxv1.Action_Resize{Resize: &sandboxv1.Resize{Session: r.session, Rows: 40, Cols: 1000}}}, r.lastAction(t), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	for _, tt := range []struct{ at, body, field string }{
		{"/signal", `{}`, "signal"}, {"/signal", `{"signal":"INT"}`, "signal"}, {"/signal", `{"signal":"SIGNOTHING"}`, "signal"}, {"/signal", `{"signal":2}`, "signal"},
		{"/resize", `{"rows":1001,"cols":1}`, "rows"}, {"/resize", `{"rows":1}`, "cols"}, {"/resize", `{"rows":1,"cols":-1}`, "cols"}, {"/resize", `{"rows":1.5,"cols":1}`, "rows"},
	} {
		r.ask(t, "POST", r.sessionPath(tt.at), strings.NewReader(tt.body)).fails(t, space.CodeInvalid, tt.field)
	}
	r.plane = func(any) error { return space.Errorf(space.CodeConflict, "it was never attached to") }
	r.ask(t, "POST", r.sessionPath("/signal"), strings.NewReader(`{"signal":"SIGINT"}`)).fails(t, space.CodeConflict, "")
}

// TestStdinGoesOnAsItComes sends pieces one by one, each after the one before has arrived.
func TestStdinGoesOnAsItComes(t *testing.T) {
	r := newRig(t)
	arrived := make(chan string)
	r.call = func(_ context.Context, a *sandboxv1.Action, s *nodeCall) error {
		n := a.GetStdin().GetOffset()
		for {
			m, err := s.Receive()
			if err != nil {
				return err
			}
			n += uint64(len(m.GetData()))
			if m.GetEnd() {
				return s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Received{Received: n}})
			}
			arrived <- string(m.GetData())
		}
	}
	sent := make(chan string)
	go func() {
		defer close(sent)
		for _, piece := range []string{"a", "bc", repeat("d", 1000)} {
			sent <- piece
			if got := <-arrived; got != piece {
				t.Errorf("%q arrived, want %q", got, piece)
			}
		}
	}()
	var got httpapi.StdinReceived
	r.ask(t, "POST", r.sessionPath("/stdin?offset=7&close=true"), trickle{sent, io.EOF}, "Authorization", "Bearer "+r.token).want(t, 200, &got)
	if got.Received != 7+3+1000 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(&sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: r.session, Offset: 7, Close: true}}}, r.lastAction(t), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	r.ask(t, "POST", r.sessionPath("/stdin?offset=0"), nil).want(t, 200, &got)
	if got.Received != 0 || r.lastAction(t).GetStdin().GetClose() {
		t.Errorf("%+v after nothing", got)
	}
	r.ask(t, "POST", r.sessionPath("/stdin"), nil).fails(t, space.CodeInvalid, "offset")
	r.ask(t, "POST", r.sessionPath("/stdin?offset=-1"), nil).fails(t, space.CodeInvalid, "offset")
	r.ask(t, "POST", r.sessionPath("/stdin?offset=1&close=1"), nil).fails(t, space.CodeInvalid, "close")
	r.call = func(context.Context, *sandboxv1.Action, *nodeCall) error {
		return space.FieldErrorf("offset", "lies beyond what was received")
	}
	r.ask(t, "POST", r.sessionPath("/stdin?offset=9"), strings.NewReader("x")).fails(t, space.CodeInvalid, "offset")
}

// change is a watch's event.
func change(kind, path string) *sandboxv1.CallResponse {
	return &sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Event{Event: &sandboxv1.Event{Kind: kind, Path: path}}}
}

// watches is a guest that's ready, tells of changes and then ends as it's told.
func watches(end func(context.Context) error, changes ...*sandboxv1.CallResponse) func(context.Context, *sandboxv1.Action, *nodeCall) error {
	return func(ctx context.Context, _ *sandboxv1.Action, s *nodeCall) error {
		s.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Ready{Ready: &sandboxv1.Ready{}}})
		for _, c := range changes {
			if err := s.Send(c); err != nil {
				return err
			}
		}
		return end(ctx)
	}
}

func TestWatch(t *testing.T) {
	r := newRig(t)
	all := []*sandboxv1.CallResponse{change("create", "/a\nevent: exit"), change("write", "/a"), change("remove", "/a"), change("rename", "/b"), change("chmod", "/c"), change("overflow", "")}
	for _, tt := range []struct {
		end  error
		more *sandboxv1.CallResponse
		want sse
	}{
		{end: nil, want: sse{name: "ended", data: `{"reason":"interrupted"}`}},
		{end: space.Errorf(space.CodeUnavailable, "x"), want: sse{name: "ended", data: `{"reason":"interrupted"}`}},
		{end: space.Errorf(space.CodeRouteStale, "x"), want: sse{name: "ended", data: `{"reason":"interrupted"}`}},
		{end: space.Errorf(space.CodeExecutionLost, "x"), want: sse{name: "lost"}},
		{end: space.Errorf(space.CodeConflict, "stopped"), want: sse{name: "error"}},
		{end: space.Errorf(space.CodeNotFound, "the directory is gone"), want: sse{name: "error"}},
		{more: change("exit", "/a"), want: sse{name: "error"}},
		{more: &sandboxv1.CallResponse{}, want: sse{name: "error"}},
	} {
		messages := all
		if tt.more != nil {
			messages = append(messages[:len(messages):len(messages)], tt.more)
		}
		r.call = watches(func(context.Context) error { return tt.end }, messages...)
		got := r.ask(t, "GET", r.files("/watch?path=/&recursive=true"), nil).rest(t)
		if len(got) != 8 || got[0].name != "ready" || got[1].name != "create" || got[1].data != `{"path":"/a\nevent: exit"}` || got[6].name != "overflow" {
			t.Fatalf("%v: %+v", tt.end, got)
		}
		if last := got[7]; last.name != tt.want.name || tt.want.data != "" && last.data != tt.want.data {
			t.Errorf("%v: it ends with %+v", tt.end, last)
		}
	}
	if w := r.lastAction(t); !w.GetWatch().GetRecursive() || w.GetUser() != "user" {
		t.Errorf("%v", w)
	}
	r.call = func(context.Context, *sandboxv1.Action, *nodeCall) error {
		return space.Errorf(space.CodeNotFound, "no such directory")
	}
	r.ask(t, "GET", r.files("/watch?path=/"), nil).fails(t, space.CodeNotFound, "")
	r.call = nothing
	r.ask(t, "GET", r.files("/watch?path=/"), nil).fails(t, space.CodeGuest, "")
}

func TestWatchEndsWithItsClientOrTheEdge(t *testing.T) {
	r := newRig(t)
	r.timing.keepAlive = 10 * time.Millisecond
	gone := make(chan struct{}, 2)
	r.call = watches(func(ctx context.Context) error { <-ctx.Done(); gone <- struct{}{}; return ctx.Err() })
	first := r.ask(t, "GET", r.files("/watch?path=/"), nil)
	for _, want := range []string{"ready", ":", ":"} {
		if e := first.mustNext(t); e.name != want {
			t.Fatalf("%+v, want %s", e, want)
		}
	}
	first.Body.Close()
	await(t, "the first watch has ended", gone)
	second := r.ask(t, "GET", r.files("/watch?path=/"), nil)
	second.mustNext(t)
	go r.stop()
	rest := second.rest(t)
	if last := rest[len(rest)-1]; last.name != "ended" || last.data != `{"reason":"shutting_down"}` {
		t.Errorf("%+v", last)
	}
	await(t, "the second watch has ended", gone)
}
