package edge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

func TestAttachSendsTheDocumentedEvents(t *testing.T) {
	r := newRig(t)
	r.attach = sends(nil, started(), output(stdout, 0, "hello\n"), output(stderr, 6, "\x00\xff"), gap(8, 100), exit(&sessionv1.Exit{Code: 3, Offset: 100}))
	c := r.open(t)
	for header, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
		if got := c.Header.Get(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
	got, err := io.ReadAll(c.lines)
	if err != nil {
		t.Fatal(err)
	}
	want := `id: 0
event: started
data: {"at":"1970-01-01T00:00:00Z"}

id: 6
event: stdout
data: {"data":"aGVsbG8K"}

id: 8
event: stderr
data: {"data":"AP8="}

id: 100
event: gap
data: {"from":8,"to":100}

id: 100
event: exit
data: {"code":3}

`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestExits(t *testing.T) {
	for _, tt := range []struct {
		exit *sessionv1.Exit
		want string
	}{
		{&sessionv1.Exit{}, `{"code":0}`},
		{&sessionv1.Exit{Code: 137}, `{"code":137}`},
		{&sessionv1.Exit{Signal: 9, SignalName: "SIGKILL"}, `{"code":null,"signal":"SIGKILL"}`},
		{&sessionv1.Exit{Code: 127, Error: "nosuch: not found"}, `{"code":127,"error":"nosuch: not found"}`},
	} {
		c := cursor{started: true}
		e, send, err := c.next(exit(tt.exit))
		if err != nil || !send || !e.last {
			t.Errorf("%v: %+v, %v, %v", tt.exit, e, send, err)
		}
		frame, err := e.frame()
		if want := "id: 0\nevent: exit\ndata: " + tt.want + "\n\n"; err != nil || string(frame) != want {
			t.Errorf("%v: %q, %v, want %q", tt.exit, frame, err, want)
		}
	}
}

// TestResumeAtEveryByte attaches with every id that a client can have, and some that fall into the middle of what the node sends.
func TestResumeAtEveryByte(t *testing.T) {
	r := newRig(t)
	const log = "0123456789abcdefghijklmnopqrstuvwxyz"
	r.attach = func(_ context.Context, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		if !req.Resume {
			t.Error("a client that has an id isn't resumed")
		}
		for at := int(req.FromOffset) / 7 * 7; at < len(log); at += 7 { // begins before the offset, as a chunk on the disk does
			if err := send(output(stdout, uint64(at), log[at:min(at+7, len(log))])); err != nil {
				return err
			}
		}
		return send(exit(&sessionv1.Exit{Offset: uint64(len(log))}))
	}
	for from := range len(log) + 1 {
		events := r.open(t, lastEventID, fmt.Sprint(from)).rest(t)
		got, id := joined(t, events)
		if want := log[from:]; got != want || id != fmt.Sprint(len(log)) {
			t.Errorf("after %d: %q up to id %s, want %q", from, got, id, want)
		}
	}
}

// joined returns the output in events, and the last id.
func joined(t *testing.T, events []sse) (data, id string) {
	t.Helper()
	for _, e := range events {
		if e.id != "" {
			id = e.id
		}
		if e.name != "stdout" && e.name != "stderr" {
			continue
		}
		var d struct{ Data []byte }
		if err := json.Unmarshal([]byte(e.data), &d); err != nil {
			t.Errorf("data %q: %v", e.data, err)
		}
		data += string(d.Data)
	}
	return data, id
}

func TestLargeOutputComesWhole(t *testing.T) {
	r := newRig(t)
	chunk := strings.Repeat("x", 32<<10)
	const chunks = 200
	r.attach = func(_ context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		for i := range chunks {
			if err := send(output(stdout, uint64(i*len(chunk)), chunk)); err != nil {
				return err
			}
		}
		return send(exit(&sessionv1.Exit{Offset: uint64(chunks * len(chunk))}))
	}
	got, id := joined(t, r.open(t).rest(t))
	if len(got) != chunks*len(chunk) || id != fmt.Sprint(len(got)) {
		t.Errorf("%d bytes up to id %s", len(got), id)
	}
}

func TestOnlyTheSessionsTokenOpens(t *testing.T) {
	r := newRig(t)
	for name, header := range map[string]string{
		"none": "", "another scheme": "Basic " + r.token, "a management key": "Bearer space_0123456789abcdef", "no prefix": "Bearer abc",
		"unknown": "Bearer " + "spaceatt_" + "other", "with a line's end": "Bearer " + r.token + "%0a", "long": "Bearer " + "spaceatt_" + strings.Repeat("a", 300),
		"two in one": "Bearer " + r.token + " " + r.token,
	} {
		req := r.request(t, "Authorization", header)
		if header == "" {
			req.Header.Del("Authorization")
			req.URL.RawQuery = "token=" + r.token
		}
		c := r.do(t, req)
		if p := c.problem(t); p.Code != string(space.CodeUnauthenticated) || c.StatusCode != http.StatusUnauthorized || c.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %s %+v", name, c.Status, p)
		}
	}
	req := r.request(t)
	req.Header.Add("Authorization", "Bearer "+r.token)
	if c := r.do(t, req); c.StatusCode != http.StatusUnauthorized {
		t.Errorf("two headers: %s", c.Status)
	}
	if len(r.attached) != 0 {
		t.Errorf("%d of them reached the node", len(r.attached))
	}
}

func TestTokensAreNotLogged(t *testing.T) {
	r := newRig(t)
	r.attach = sends(space.Errorf(space.CodeInternal, "broken"))
	r.do(t, r.request(t)).problem(t)
	r.resolve = func(*controlv1.ResolveAttachmentRequest) error { return space.Errorf(space.CodeUnavailable, "down") }
	r.do(t, r.request(t)).problem(t)
	r.stop()
	if !bytes.Contains(r.log.Bytes(), []byte("a request went wrong")) || bytes.Contains(r.log.Bytes(), []byte(r.token)) {
		t.Errorf("the log: %s", r.log.String())
	}
}

func TestProblems(t *testing.T) {
	r := newRig(t)
	r.attach = sends(nil, started(), exit(&sessionv1.Exit{}))
	attach := "/v1/sessions/" + r.session + "/attach"
	for _, tt := range []struct {
		name, method, path, header, value, body string
		status                                  int
		code                                    space.Code
		field                                   string
	}{
		{name: "no such path", path: "/v1/sandboxes", status: 404, code: space.CodeNotFound},
		{name: "the root", path: "/", status: 404, code: space.CodeNotFound},
		{name: "unclean path", path: "/v1//sessions", status: 404, code: space.CodeNotFound},
		{name: "slash at the end", path: attach + "/", status: 404, code: space.CodeNotFound},
		{name: "not a session", path: "/v1/sessions/sbx_1/attach", status: 404, code: space.CodeNotFound},
		{name: "post", method: "POST", path: attach, status: 405, code: space.CodeMethod},
		{name: "head starts nothing", method: "HEAD", path: attach, status: 405},
		{name: "post of health", method: "POST", path: "/healthz", status: 405, code: space.CodeMethod},
		{name: "body", path: attach, body: "x", status: 400, code: space.CodeInvalid, field: "body"},
		{name: "empty id", path: attach, header: lastEventID, value: "", status: 400, code: space.CodeInvalid, field: lastEventID},
		{name: "negative id", path: attach, header: lastEventID, value: "-1", status: 400, code: space.CodeInvalid, field: lastEventID},
		{name: "word as id", path: attach, header: lastEventID, value: "end", status: 400, code: space.CodeInvalid, field: lastEventID},
		{name: "20 digits", path: attach, header: lastEventID, value: strings.Repeat("1", 20), status: 400, code: space.CodeInvalid, field: lastEventID},
		{name: "beyond the log", path: attach, header: lastEventID, value: strings.Repeat("9", 19), status: 400, code: space.CodeInvalid, field: lastEventID},
		{name: "one beyond the log", path: attach, header: lastEventID, value: "1", status: 400, code: space.CodeInvalid, field: lastEventID},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := r.request(t)
			req.Method = tt.method
			req.URL.Path = tt.path
			if tt.header != "" {
				req.Header[http.CanonicalHeaderKey(tt.header)] = []string{tt.value}
			}
			if tt.body != "" {
				req.Body, req.ContentLength = io.NopCloser(strings.NewReader(tt.body)), int64(len(tt.body))
			}
			c := r.do(t, req)
			if c.StatusCode != tt.status {
				t.Fatalf("status %s, want %d", c.Status, tt.status)
			}
			if tt.status == 405 && c.Header.Get("Allow") == "" {
				t.Error("no Allow header")
			}
			if tt.method == "HEAD" {
				return
			}
			if p := c.problem(t); p.Code != string(tt.code) || p.Field != tt.field {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

func TestQueryIsRefused(t *testing.T) {
	r := newRig(t)
	req := r.request(t)
	req.URL.RawQuery = "from=3"
	c := r.do(t, req)
	if p := c.problem(t); c.StatusCode != 400 || p.Code != string(space.CodeInvalid) || p.Field != "from" {
		t.Errorf("%d %+v", c.StatusCode, p)
	}
}

func TestRefusalsBecomeProblems(t *testing.T) {
	for code, want := range map[space.Code]int{
		space.CodeExecutionLost: 410, space.CodeSessionLost: 410, space.CodeRouteDenied: 403, space.CodeGuest: 422,
		space.CodeUnavailable: 503, space.CodeInternal: 500, space.CodeNotFound: 404,
	} {
		r := newRig(t)
		r.attach = sends(space.Errorf(code, "reason: /run/space/secret.sock"))
		c := r.do(t, r.request(t))
		p := c.problem(t)
		if c.StatusCode != want || p.Code != string(code) {
			t.Errorf("%s: %s %+v", code, c.Status, p)
		}
		if want >= 500 && strings.Contains(p.Detail, "/run") {
			t.Errorf("%s: the detail tells of the inside: %s", code, p.Detail)
		}
	}
}

func TestOffsetBeyondTheLogNamesTheHeader(t *testing.T) {
	r := newRig(t)
	r.attach = sends(space.FieldErrorf("from_offset", "the log has 3 bytes"))
	if p := r.do(t, r.request(t, lastEventID, "17")).problem(t); p.Field != lastEventID || p.Status != 400 {
		t.Errorf("%+v", p)
	}
}

func TestControlPlaneDown(t *testing.T) {
	r := newRig(t)
	r.Edge.control = deadControl{}
	c := r.do(t, r.request(t))
	if p := c.problem(t); p.Status != 503 || c.Header.Get("Retry-After") == "" || strings.Contains(p.Detail, "dial") {
		t.Errorf("%s %+v", c.Status, p)
	}
}

func TestStaleRouteIsResolvedOnce(t *testing.T) {
	r := newRig(t)
	stale := space.Errorf(space.CodeRouteStale, "another incarnation")
	calls := 0
	r.attach = func(ctx context.Context, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		if calls++; calls == 1 {
			return stale
		}
		return sends(nil, started(), exit(&sessionv1.Exit{}))(ctx, req, send)
	}
	if got := len(r.open(t).rest(t)); got != 2 || r.resolved != 2 {
		t.Errorf("%d events after %d resolutions", got, r.resolved)
	}
	r.attach = sends(stale)
	r.resolved = 0
	if p := r.do(t, r.request(t)).problem(t); p.Code != string(space.CodeRouteStale) || r.resolved != 2 {
		t.Errorf("%+v after %d resolutions", p, r.resolved)
	}
}

func TestLost(t *testing.T) {
	gone := space.Errorf(space.CodeExecutionLost, "the machine's process was killed")
	for name, attach := range map[string]func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error{
		"as an event":         sends(nil, started(), output(stdout, 0, "x"), lost(gone)),
		"as the stream's end": sends(gone, started(), output(stdout, 0, "x")),
	} {
		r := newRig(t)
		r.attach = attach
		events := r.open(t).rest(t)
		last := events[len(events)-1]
		if len(events) != 3 || last.name != "lost" || last.id != "" || !strings.Contains(last.data, `"code":"execution_lost"`) || !strings.Contains(last.data, "killed") {
			t.Errorf("%s: %+v", name, events)
		}
	}
}

func TestBrokenStreamsEndInATypedWay(t *testing.T) {
	for name, attach := range map[string]func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error{
		"without an end":    sends(nil, started()),
		"with an error":     sends(space.Errorf(space.CodeUnavailable, "the host went away"), started()),
		"as stale":          sends(space.Errorf(space.CodeRouteStale, "moved"), started()),
		"by leaving out":    sends(nil, started(), output(stdout, 5, "x")),
		"exit after a hole": sends(nil, started(), exit(&sessionv1.Exit{Offset: 5})),
	} {
		r := newRig(t)
		r.attach = attach
		want := []sse{{"0", "started", `{"at":"1970-01-01T00:00:00Z"}`}, {"", "ended", `{"reason":"interrupted"}`}}
		if got := r.open(t).rest(t); !cmp.Equal(got, want, cmp.AllowUnexported(sse{})) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// hangs is a node that sends events and then nothing until the stream is cancelled, which it tells through gone.
func hangs(gone chan<- struct{}, events ...*sessionv1.AttachResponse) func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error {
	return func(ctx context.Context, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		if err := sends(nil, events...)(ctx, req, send); err != nil {
			return err
		}
		<-ctx.Done()
		close(gone)
		return ctx.Err()
	}
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(waitLimit):
		t.Fatalf("no sign of: %s", what)
	}
}

func TestKilledNodeProcess(t *testing.T) {
	r := newRig(t)
	r.attach = hangs(make(chan struct{}), started(), output(stdout, 0, "abc"))
	c := r.open(t)
	c.mustNext(t)
	c.mustNext(t)
	r.cutNode()
	if got := c.rest(t); len(got) != 1 || got[0].data != `{"reason":"interrupted"}` {
		t.Errorf("%+v", got)
	}
	if p := r.do(t, r.request(t)).problem(t); p.Status != 503 {
		t.Errorf("while it's away: %+v", p)
	}
}

func TestShutdownSaysGoodbye(t *testing.T) {
	r := newRig(t)
	gone := make(chan struct{})
	r.attach = hangs(gone, started())
	c := r.open(t)
	c.mustNext(t)
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	if got := c.rest(t); len(got) != 1 || got[0] != (sse{"", "ended", `{"reason":"shutting_down"}`}) {
		t.Errorf("%+v", got)
	}
	await(t, "the edge has ended", stopped)
	await(t, "the node's stream has ended", gone)
}

func TestClientThatLeavesFreesTheStream(t *testing.T) {
	r := newRig(t)
	gone := make(chan struct{})
	r.attach = hangs(gone, started())
	c := r.open(t)
	c.mustNext(t)
	c.Body.Close()
	await(t, "the node's stream has ended", gone)
}

func TestKeepAlive(t *testing.T) {
	r := newRig(t)
	r.timing.keepAlive = 10 * time.Millisecond
	r.attach = hangs(make(chan struct{}), started())
	c := r.open(t)
	c.mustNext(t)
	for range 3 {
		if e := c.mustNext(t); e.name != ":" {
			t.Errorf("%+v, want a comment", e)
		}
	}
}

// TestSilentStreamIsAnswered has a session that says nothing for longer than the edge waits for a refusal.
func TestSilentStreamIsAnswered(t *testing.T) {
	r := newRig(t)
	r.timing.first = 10 * time.Millisecond
	r.attach = hangs(make(chan struct{}))
	c := r.open(t, lastEventID, "0")
	r.stop()
	if got := c.rest(t); len(got) != 1 || got[0].name != "ended" {
		t.Errorf("%+v", got)
	}
}

// floods is a node that sends as fast as it's let, until its stream is cancelled.
func floods(gone chan<- struct{}) func(context.Context, *sessionv1.AttachRequest, func(*sessionv1.AttachResponse) error) error {
	chunk := strings.Repeat("y", 32<<10)
	return func(ctx context.Context, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		defer close(gone)
		for at := req.FromOffset; ; at += uint64(len(chunk)) {
			if err := send(output(stdout, at, chunk)); err != nil {
				return err
			}
		}
	}
}

// deaf attaches on a raw connection that nobody reads.
func (r *rig) deaf(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(waitLimit))
	fmt.Fprintf(conn, "GET /v1/sessions/%s/attach HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", r.session, r.token)
	return conn
}

func TestDeafClientIsDisconnected(t *testing.T) {
	r := newRig(t)
	r.timing.slow, r.timing.grace = 50*time.Millisecond, 50*time.Millisecond
	gone := make(chan struct{})
	r.attach = floods(gone)
	r.deaf(t)
	await(t, "the node's stream has ended", gone)
}

func TestSlowClientIsToldWhy(t *testing.T) {
	r := newRig(t)
	r.timing.slow, r.timing.grace = 50*time.Millisecond, waitLimit
	gone := make(chan struct{})
	stalled := make(chan struct{})
	quiet := time.AfterFunc(waitLimit, func() { close(stalled) })
	r.attach = func(ctx context.Context, req *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		return floods(gone)(ctx, req, func(m *sessionv1.AttachResponse) error {
			err := send(m)
			if quiet.Stop() {
				quiet.Reset(10 * r.timing.slow) // by then the edge has waited for longer than slow
			}
			return err
		})
	}
	conn := r.deaf(t)
	await(t, "the node has to wait", stalled)
	all, err := io.ReadAll(conn)
	if err == nil && !bytes.Contains(all[max(0, len(all)-200):], []byte("event: ended\ndata: {\"reason\":\"slow_client\"}")) {
		t.Errorf("the stream ends with %q", all[max(0, len(all)-200):])
	}
	if err != nil {
		t.Error(err)
	}
	await(t, "the node's stream has ended", gone)
}

func TestLimitPerSession(t *testing.T) {
	r := newRig(t)
	r.attach = func(ctx context.Context, _ *sessionv1.AttachRequest, send func(*sessionv1.AttachResponse) error) error {
		send(started())
		<-ctx.Done()
		return nil
	}
	for range maxAttachesPerSession {
		r.open(t)
	}
	if p := r.do(t, r.request(t)).problem(t); p.Code != string(space.CodeQuotaExceeded) {
		t.Errorf("%+v", p)
	}
	if c := r.do(t, r.request(t, "Authorization", "Bearer "+"spaceatt_"+"stranger")); c.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger learns %s", c.Status)
	}
}

func TestHealth(t *testing.T) {
	r := newRig(t)
	req := r.request(t)
	req.URL.Path = "/healthz"
	req.Header.Del("Authorization")
	body, _ := io.ReadAll(r.do(t, req).Body)
	if got := strings.TrimSpace(string(body)); got != `{"status":"ok","version":"test"}` {
		t.Error(got)
	}
}

func TestBase64IsStandard(t *testing.T) {
	frame, _ := event{name: "stdout", id: "2", data: map[string]any{"data": []byte{0xfb, 0xff}}}.frame()
	if !bytes.Contains(frame, []byte(base64.StdEncoding.EncodeToString([]byte{0xfb, 0xff}))) {
		t.Errorf("%s", frame)
	}
}
