package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/telemetry"
)

func body(t *testing.T, url string) (status int, text string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// serveOps serves an operator on a port until the test ends.
func serveOps(t *testing.T, o *telemetry.Ops) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- telemetry.Serve(ctx, l, o.Handler()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

func TestReadiness(t *testing.T) {
	o := new(telemetry.Ops)
	url := serveOps(t, o)
	expect := func(path string, status int, text string) {
		t.Helper()
		if got, said := body(t, url+path); got != status || !strings.Contains(said, text) {
			t.Errorf("%s: %d %q, want %d %q", path, got, said, status, text)
		}
	}
	expect("/healthz", 200, "ok")
	expect("/readyz", 503, "starting")
	var trouble error
	o.Ready(func(context.Context) error { return trouble })
	expect("/readyz", 200, "ok")
	trouble = errors.New("dial /run/s3cret")
	expect("/readyz", 503, "waiting")
	if _, said := body(t, url+"/readyz"); strings.Contains(said, "s3cret") {
		t.Errorf("it tells the cause: %q", said)
	}
	o.Ready(nil)
	expect("/readyz", 200, "ok")
	expect("/debug/pprof/", 404, "")
	if resp, err := http.Post(url+"/metrics", "", nil); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
}

// TestLabelsAreBounded has clients choose methods and paths.
func TestLabelsAreBounded(t *testing.T) {
	telemetry.Build("v1", "test")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /things/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	mux.HandleFunc("GET /tree/{id}/", func(http.ResponseWriter, *http.Request) {})
	h := telemetry.HTTP(mux, func() string { return "req_1" }, func(r *http.Request) string { _, p := mux.Handler(r); return p })
	for method, path := range map[string]string{"GET": "/things/sbx_chosen", "BREW": "/nothing/chosen", "POST": "/things/chosen"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(method, path, nil))
	}
	for range 2 {
		for n := range 400 { // redirects, whose pattern is the client's path
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/tree/"+strings.Repeat("x", n+1), nil))
		}
	}
	_, text := body(t, serveOps(t, new(telemetry.Ops))+"/metrics")
	for _, want := range []string{
		`space_http_requests_total{method="GET",route="/things/{id}",status="418"} 1`,
		`space_http_requests_total{method="other",route="none",status="404"} 1`,
		`space_http_request_duration_seconds_count{method="GET",route="/things/{id}"} 1`,
		`space_build_info{`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "chosen") || strings.Contains(text, "BREW") {
		t.Error("a client's words are labels")
	}
	if n := strings.Count(text, "\nspace_http_requests_total{"); n > 260 {
		t.Errorf("%d series of requests", n)
	}
}

// TestAnswersPassThrough: streams flush, and the id is in the answer.
func TestAnswersPassThrough(t *testing.T) {
	s := httptest.NewServer(telemetry.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, telemetry.Request(r.Context()))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done() // the client has read what was flushed, and leaves
	}), func() string { return "req_2" }, func(*http.Request) string { return "" }))
	defer s.Close()
	resp, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("req_2"))
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "req_2" || resp.Header.Get(telemetry.RequestHeader) != "req_2" {
		t.Errorf("%q, %v, %v", b, resp.Header, err)
	}
	resp.Body.Close()
}

func TestLogLinesHaveTheirRequest(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewJSONHandler(&out, nil))).With("role", "test")
	log.InfoContext(telemetry.WithRequest(t.Context(), "req_3"), "with")
	log.InfoContext(t.Context(), "without")
	lines := strings.Split(out.String(), "\n")
	if !strings.Contains(lines[0], `"role":"test","request":"req_3"`) || strings.Contains(lines[1], "request") {
		t.Error(out.String())
	}
}
