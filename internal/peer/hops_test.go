package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/api/gen/control/v1/controlv1connect"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/gen/session/v1/sessionv1connect"
	"github.com/space-platform/space/internal/telemetry"
)

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

type line struct{ Msg, Procedure, Code, Request, Trace string }

func (l *lines) all(t *testing.T) (out []line) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range strings.Lines(l.b.String()) {
		var one line
		if err := json.Unmarshal([]byte(s), &one); err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

func logged(t *testing.T) *lines {
	t.Helper()
	l, before := new(lines), slog.Default()
	slog.SetDefault(slog.New(telemetry.LogHandler(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	t.Cleanup(func() { slog.SetDefault(before) })
	return l
}

// hop passes streams on to the next one; the last one ends them.
type hop struct {
	next sessionv1connect.SessionServiceClient
}

func (h hop) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], out *connect.ServerStream[sessionv1.AttachResponse]) error {
	if h.next == nil {
		return ToConnect(space.Errorf(space.CodeExecutionLost, "gone"))
	}
	s, err := h.next.Attach(ctx, connect.NewRequest(req.Msg))
	if err != nil {
		return err
	}
	defer s.Close()
	for s.Receive() {
		if err := out.Send(s.Msg()); err != nil {
			return err
		}
	}
	return s.Err()
}

// clientOf serves h on a unix socket until the test ends, and returns a client that leaves before.
func clientOf(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "rpc.sock")
	l, err := Listen(socket, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client := Client(socket, os.Getuid())
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// chain makes n hops over unix sockets and returns a client of the first.
func chain(t *testing.T, n int) sessionv1connect.SessionServiceClient {
	var next sessionv1connect.SessionServiceClient
	for range n {
		mux := http.NewServeMux()
		mux.Handle(sessionv1connect.NewSessionServiceHandler(hop{next}, HandlerOptions(1<<20)))
		next = sessionv1connect.NewSessionServiceClient(clientOf(t, mux), "http://socket", ClientOptions(1<<20))
	}
	return next
}

const secret = "spaceatt_s3cretMaterial"

// public is a server for clients in front of a node's hops and a control plane, as the edge is.
func public(t *testing.T, id string) (url string) {
	t.Helper()
	first := chain(t, 3)
	mux := http.NewServeMux()
	mux.Handle(controlv1connect.NewControlServiceHandler(resolves{}, HandlerOptions(1<<20)))
	control := controlv1connect.NewControlServiceClient(clientOf(t, mux), "http://socket", ClientOptions(1<<20))
	s := httptest.NewServer(telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := control.ResolveAttachment(r.Context(), connect.NewRequest(&controlv1.ResolveAttachmentRequest{Token: r.Header.Get("Authorization")})); err != nil {
			t.Error(err)
		}
		stream, err := first.Attach(r.Context(), connect.NewRequest(&sessionv1.AttachRequest{}))
		if err != nil {
			t.Error(err)
			return
		}
		defer stream.Close()
		if stream.Receive() || space.CodeOf(FromConnect(stream.Err())) != space.CodeExecutionLost {
			t.Errorf("the chain ends with %v", stream.Err())
		}
	}), func() string { return id }, func(*http.Request) string { return "GET /attach/{id}" }))
	t.Cleanup(s.Close)
	return s.URL
}

type resolves struct {
	controlv1connect.UnimplementedControlServiceHandler
}

func (resolves) ResolveAttachment(context.Context, *connect.Request[controlv1.ResolveAttachmentRequest]) (*connect.Response[controlv1.ResolveAttachmentResponse], error) {
	return connect.NewResponse(&controlv1.ResolveAttachmentResponse{}), nil
}

// ask makes a request as a client that brings a token, a request id of its own and the context of a trace.
func ask(t *testing.T, url string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/attach/one?token="+secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Authorization": "Bearer " + secret, "X-Request-Id": "mine", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// TestOneRequestIsFoundInEveryHop: the id that a public server gives a request is in the log of each hop behind it, and what the client
// brought to show who it is, in none.
func TestOneRequestIsFoundInEveryHop(t *testing.T) {
	log, id := logged(t), space.NewID(space.PrefixRequest)
	if got := ask(t, public(t, id)).Header.Get("X-Request-Id"); got != id {
		t.Errorf("the answer has the id %q", got)
	}
	calls := map[string]int{}
	for _, l := range log.all(t) {
		if l.Msg == "call" && l.Request == id && l.Trace == "" {
			calls[l.Procedure[strings.LastIndexByte(l.Procedure, '/')+1:]+" "+l.Code]++
		}
	}
	if calls["ResolveAttachment ok"] != 1 || calls["Attach failed_precondition"] != 3 || len(calls) != 2 {
		t.Errorf("the hops logged %v", calls)
	}
	if s := log.b.String(); strings.Contains(s, secret) || strings.Contains(s, "mine") || strings.Contains(strings.ToLower(s), "authorization") {
		t.Error("a client's headers reached the log")
	}
}

// TestSpansOfAllHopsAreOneTrace: from the client's own span down, each one's parent is the one before it.
func TestSpansOfAllHopsAreOneTrace(t *testing.T) {
	log, id := logged(t), space.NewID(space.PrefixRequest)
	spans := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	telemetry.Trace(p)
	t.Cleanup(func() { telemetry.Trace(nil); p.Shutdown(context.Background()) })
	ask(t, public(t, id))

	const traceID = "0af7651916cd43dd8448eb211c80319c"
	known := map[string]bool{"b7ad6b7169203331": true}
	ended := spans.Ended()
	for _, s := range ended {
		known[s.SpanContext().SpanID().String()] = true
	}
	for _, s := range ended {
		if s.SpanContext().TraceID().String() != traceID || !known[s.Parent().SpanID().String()] {
			t.Errorf("span %q is of trace %s with parent %s", s.Name(), s.SpanContext().TraceID(), s.Parent().SpanID())
		}
		for _, a := range s.Attributes() {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("span %q has the token in %s", s.Name(), a.Key)
			}
		}
	}
	if want := 1 + 2 + 2*3; len(ended) != want { // the public server; both sides of each call
		t.Errorf("%d spans, want %d", len(ended), want)
	}
	for _, l := range log.all(t) {
		if l.Trace != traceID {
			t.Errorf("a line about a request has trace %q", l.Trace)
		}
	}
}
