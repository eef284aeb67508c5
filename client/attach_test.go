package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// edge serves one session: each connection gets what the next of its scripts says.
type edge struct {
	*httptest.Server
	connections atomic.Int32
	resumed     []string // Last-Event-ID of each connection
}

func newEdge(t *testing.T, scripts ...http.HandlerFunc) *edge {
	e := &edge{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(e.connections.Add(1)) - 1
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		if n >= len(scripts) {
			t.Errorf("connection %d is one too many", n+1)
			return
		}
		e.resumed = append(e.resumed, r.Header.Get("Last-Event-ID"))
		scripts[n](w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// events sends a script's lines, written as "type id data", with output in plain text.
func events(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, l := range lines {
			f := strings.SplitN(l, " ", 3)
			if f[0] == "stdout" || f[0] == "stderr" {
				f[2] = fmt.Sprintf(`{"data":%q}`, base64.StdEncoding.EncodeToString([]byte(f[2])))
			}
			fmt.Fprintf(w, "event: %s\nid: %s\ndata: %s\n\n", f[0], f[1], f[2])
		}
		w.(http.Flusher).Flush()
	}
}

func problem(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"about:blank","title":"t","status":%d,"code":%q,"detail":"d","request_id":"req_1"}`, status, code)
	}
}

// attach reads a session to its end and writes down what came, in the form of scripts.
func attach(t *testing.T, c *Client, address string) (got []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a := Attachment{Token: "token", Url: address + "/v1/sessions/ses_1/attach"}
	for e, err := range c.Attach(ctx, Session{Id: "ses_1", Sandbox: "sbx_1"}, a) {
		if err != nil {
			return got, err
		}
		switch e.Type {
		case EventExit:
			got = append(got, fmt.Sprintf("exit %d %d%s%s", e.Offset, e.Exit.Code, e.Exit.Signal, e.Exit.Error))
		case EventLost:
			got = append(got, "lost "+e.Lost.Code)
		default:
			got = append(got, fmt.Sprintf("%s %d %s", e.Type, e.Offset, e.Data))
		}
	}
	return got, nil
}

func mustNew(t *testing.T, address string) *Client {
	t.Helper()
	c, err := New(address, "space_key")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAttachComesBackWithoutLossOrRepetition(t *testing.T) {
	e := newEdge(t,
		events(`started 0 {"at":"2026-01-02T03:04:05Z"}`, "stdout 3 abc"), // dropped
		problem(503, "unavailable"),
		events("stdout 3 abc", "stderr 5 de", `ended  {"reason":"shutting_down"}`), // repeats what was seen
		events("stdout 7 fg", `future 7 {}`, `exit 9 {"code":0}`),                  // two bytes are missing: the connection is of no use
		events("stdout 9 hi", `exit 9 {"code":3}`),
	)
	got, err := attach(t, mustNew(t, e.URL), e.URL)
	want := []string{"started 0 ", "stdout 3 abc", "stderr 5 de", "stdout 7 fg", "stdout 9 hi", "exit 9 3"}
	if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if ids := strings.Join(e.resumed, ","); ids != ",3,3,5,7" {
		t.Errorf("Last-Event-ID were %s, want ,3,3,5,7", ids)
	}
}

func TestAttachEnds(t *testing.T) {
	for name, c := range map[string]struct {
		script http.HandlerFunc
		want   string
		code   string
	}{
		"exit":        {events(`exit 0 {"code":0}`), "exit 0 0", ""},
		"signal":      {events(`exit 0 {"code":null,"signal":"SIGKILL"}`), "exit 0 0SIGKILL", ""},
		"not started": {events(`exit 0 {"code":127,"error":"no such file"}`), "exit 0 127no such file", ""},
		"lost":        {events(`lost  {"type":"","title":"","status":410,"code":"execution_lost"}`), "lost execution_lost", ""},
		"refused":     {problem(403, "forbidden"), "", "forbidden"},
		"gone":        {problem(410, "session_lost"), "", "session_lost"},
		"not ours":    {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "what?", 404) }, "", "unexpected_answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newEdge(t, c.script)
			got, err := attach(t, mustNew(t, s.URL), s.URL)
			if code := codeIn(err); strings.Join(got, "|") != c.want || code != c.code {
				t.Errorf("got %q, %v; want %q, code %q", got, err, c.want, c.code)
			}
		})
	}
}

func codeIn(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// TestAttachReplacesItsToken: one that has expired, or did so long ago that it's forgotten, is replaced; a new one that is refused isn't.
func TestAttachReplacesItsToken(t *testing.T) {
	for _, x := range []struct{ refusal, fresh, want string }{
		{"token_expired", "fresh", ""}, {"unauthenticated", "fresh", ""}, {"unauthenticated", "refused too", "unauthenticated"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/sessions/ses_1/attach", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer fresh" {
				events(`exit 0 {"code":0}`)(w, r)
			} else {
				problem(401, x.refusal)(w, r)
			}
		})
		s := httptest.NewServer(mux)
		defer s.Close()
		issued := 0
		mux.HandleFunc("POST /v1/sandboxes/sbx_1/sessions/ses_1/attachments", func(w http.ResponseWriter, r *http.Request) {
			issued++
			if r.Header.Get("Authorization") != "Bearer space_key" {
				t.Errorf("authorization %q", r.Header.Get("Authorization"))
			}
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"token":%q,"url":%q,"expires_at":"2026-01-02T03:04:05Z"}`, x.fresh, s.URL+"/v1/sessions/ses_1/attach")
		})
		got, err := attach(t, mustNew(t, s.URL), s.URL)
		if codeIn(err) != x.want || x.want == "" && (err != nil || len(got) != 1) || issued != 1 {
			t.Errorf("%+v: got %q after %d tokens, %v", x, got, issued, err)
		}
	}
}

// broken is a network on which nothing arrives.
type broken struct{ tries int }

func (b *broken) RoundTrip(*http.Request) (*http.Response, error) {
	b.tries++
	return nil, errors.New("no route to host")
}

func TestAttachGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broken{}
		c, err := New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: b}))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, err = range c.Attach(t.Context(), Session{Id: "ses_1"}, Attachment{Url: "http://nowhere.invalid/"}) {
		}
		if err == nil || b.tries != attachMost {
			t.Errorf("%d tries, %v; want %d and an error", b.tries, err, attachMost)
		}
		if took := time.Since(began); took > attachMost*2*attachLongest {
			t.Errorf("it took %s", took)
		}
	})
}

// silent opens a stream on which nothing comes.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: hanging{r.Context()}, Request: r}, nil
}

type hanging struct{ ctx context.Context }

func (h hanging) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }
func (hanging) Close() error               { return nil }

func TestSilentConnectionIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://nowhere.invalid", "", WithHTTPClient(&http.Client{Transport: silent{}}))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, err = range c.Attach(t.Context(), Session{Id: "ses_1"}, Attachment{Url: "http://nowhere.invalid/"}) {
		}
		if err == nil || time.Since(began) < attachMost*attachSilence {
			t.Errorf("given up after %s: %v", time.Since(began), err)
		}
	})
}

// TestRunComesBackToWhatItCreated: one request creates, however often it's sent, and once the session is known it's attached to.
func TestRunComesBackToWhatItCreated(t *testing.T) {
	const created = `created  {"session":{"id":"ses_1","sandbox":"sbx_1"},"attachment":{"token":"spaceatt_x","url":"u"}}`
	var asked []string
	asks := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			asked = append(asked, fmt.Sprint(r.Method, " ", r.URL.Path, " ", r.Header.Get("Accept"), " ", len(r.Header.Get("Idempotency-Key")) > 20, " ", string(body)))
			if r.Method == http.MethodPost {
				asked = append(asked, r.Header.Get("Idempotency-Key"))
			}
			h(w, r)
		}
	}
	accepted := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusCreated); h(w, r) }
	}
	e := newEdge(t,
		asks(problem(503, "unavailable")),
		asks(accepted(events())), // broke off before the session was told
		asks(accepted(events(created, `ended  {"reason":"interrupted"}`))),
		asks(events(`started 0 {"at":"2026-01-02T03:04:05Z"}`, "stdout 3 abc")),
		asks(events("stdout 3 abc", `exit 3 {"code":0}`)),
	)
	p, err := NewPlane(e.URL, "sbx_1", "token")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for ev, err := range p.Run(t.Context(), SessionCreate{Argv: &[]string{"true"}}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s", ev.Type, ev.Data))
		if ev.Type == EventCreated && (ev.Created.Session.Id != "ses_1" || ev.Created.Attachment.Token != "spaceatt_x") {
			t.Errorf("%+v", ev.Created)
		}
	}
	if want := "created |started |stdout abc|exit "; strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
	const post = `POST /v1/sandboxes/sbx_1/sessions text/event-stream true {"argv":["true"]}`
	const get = `GET /v1/sessions/ses_1/attach text/event-stream false `
	if len(asked) != 8 || asked[0] != post || asked[2] != post || asked[4] != post || asked[6] != get || asked[7] != get {
		t.Fatalf("asked %q", asked)
	}
	if asked[1] != asked[3] || asked[1] != asked[5] {
		t.Errorf("keys %q", asked)
	}
	if ids := strings.Join(e.resumed, ","); ids != ",,,,3" {
		t.Errorf("Last-Event-ID were %s", ids)
	}
}

func TestRunSaysWhyNothingWasCreated(t *testing.T) {
	e := newEdge(t, problem(429, "quota_exceeded"))
	p, err := NewPlane(e.URL, "sbx_1", "token")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range p.Run(t.Context(), SessionCreate{Argv: &[]string{"true"}}) {
		var refused *Error
		if !errors.As(err, &refused) || refused.Code != "quota_exceeded" || !strings.HasPrefix(err.Error(), "create a session") {
			t.Errorf("%v", err)
		}
	}
}

// TestEncodedOutputIsTheSameLog: left in base64 it's taken up where it was, to the byte, and what isn't plain base64 is decoded.
func TestEncodedOutputIsTheSameLog(t *testing.T) {
	e := newEdge(t,
		events(`started 0 {"at":"2026-01-02T03:04:05Z"}`, "stdout 3 abc", "stdout 4 d"),
		events("stdout 7 cdefg", "stderr 7 ", `stderr 8 h`),
		events(`exit 8 {"code":0}`),
	)
	p, err := NewPlane(e.URL, "sbx_1", "token")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for ev, err := range p.Attach(t.Context(), "ses_1", Encoded()) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := base64.StdEncoding.DecodeString(string(ev.Encoded))
		if err != nil || ev.Data != nil {
			t.Errorf("%+v, %v", ev, err)
		}
		got = append(got, fmt.Sprintf("%s %d %s", ev.Type, ev.Offset, text))
	}
	if want := "started 0 |stdout 3 abc|stdout 4 d|stdout 7 efg|stderr 8 h|exit 8 "; strings.Join(got, "|") != want {
		t.Errorf("got %q", got)
	}
	for document, plain := range map[string]bool{`{"data":""}`: true, `{"data":"YQ=="}`: true, `{"data":"YQ"}`: false, `{"data":"\u0059Q=="}`: false, `{"data":"a\"bcdef"}`: false, `{"x":"YQ=="}`: false} {
		if text, ok := plainText([]byte(document)); ok != plain {
			t.Errorf("%s is plain: %v, %q", document, ok, text)
		}
	}
}

// TestCommandsShareAConnection runs commands one after the other, whose reader and context leave with the last event: they come over one connection.
func TestCommandsShareAConnection(t *testing.T) {
	for name, leaves := range map[string]bool{"the reader stays": false, "the reader leaves": true} {
		var dialed atomic.Int32
		ended := make(chan struct{}, 1)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusCreated)
			events(`created  {"session":{"id":"ses_1"}}`, `started 0 {"at":"2026-01-02T03:04:05Z"}`, `exit 0 {"code":0}`)(w, r)
			<-ended // the stream's end comes after the client has its last event
		}))
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				dialed.Add(1)
			}
		}
		s.Start()
		defer s.Close()
		idle := make(chan struct{}, 1)
		p, err := NewPlane(s.URL, "sbx_1", "token")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{PutIdleConn: func(error) { idle <- struct{}{} }})
			for e, err := range p.Run(ctx, SessionCreate{Argv: &[]string{"true"}}) {
				if err != nil {
					t.Fatal(err)
				}
				if leaves && e.Type == EventExit {
					break
				}
			}
			cancel()
			ended <- struct{}{}
			select {
			case <-idle:
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: the connection isn't free again", name)
			}
		}
		if n := dialed.Load(); n != 1 {
			t.Errorf("%s: three commands took %d connections", name, n)
		}
	}
}
