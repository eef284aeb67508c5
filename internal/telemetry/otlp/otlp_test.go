package otlp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"

	"github.com/space-platform/space/internal/telemetry"
)

const waitLimit = 10 * time.Second

// TestSpansReachTheCollector has a real exporter talk to a collector over a real socket.
func TestSpansReachTheCollector(t *testing.T) {
	got := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		got <- b
	}))
	defer collector.Close()
	stop, err := Start(t.Context(), Config{Endpoint: collector.URL, Service: "space-test-edge", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	request("spaceatt_s3cret")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Fatal(err)
	}
	b := <-got
	var m collectorv1.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	spans := m.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
	if len(spans) != 1 || spans[0].GetName() != "GET /things/{id}" || !strings.Contains(m.String(), "space-test-edge") || !strings.Contains(m.String(), "req_1") {
		t.Errorf("%v", &m)
	}
	if bytes.Contains(b, []byte("s3cret")) {
		t.Error("a token reached the collector")
	}
}

func request(token string) {
	h := telemetry.HTTP(http.NotFoundHandler(), func() string { return "req_1" }, func(*http.Request) string { return "GET /things/{id}" })
	r := httptest.NewRequest(http.MethodGet, "/things/one?token="+token, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	h.ServeHTTP(httptest.NewRecorder(), r)
}

// TestCollectorThatIsAway holds nobody up.
func TestCollectorThatIsAway(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	stop, err := Start(t.Context(), Config{Endpoint: gone.URL, Service: "space-test-edge"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxSpans {
		request("x")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitLimit)
	defer cancel()
	stop(ctx) // says that it couldn't send
	if ctx.Err() != nil {
		t.Error("it waits for a collector that is away")
	}
}

func TestCheck(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"http://127.0.0.1:4318": true, "https://collector.example/otlp/": true,
		"127.0.0.1:4318": false, "ftp://x": false, "http://": false, "https://user:s3cret@collector": false, "https://c/?key=s3cret": false,
		"http://c:s3cret\x7f": false,
	} {
		err := Check(endpoint)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	if stop, err := Start(t.Context(), Config{}); err != nil || stop(t.Context()) != nil {
		t.Error("nothing to send is an error")
	}
}
