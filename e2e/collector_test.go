//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"google.golang.org/protobuf/proto"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
)

// The limits of the collector.
const (
	maxCollected  = 20_000  // spans that are kept; the oldest go first
	maxExportBody = 8 << 20 // bytes of one export
)

// collector is where the platform under test sends its spans, as OTLP over HTTP.
type collector struct {
	server *httptest.Server

	mu    sync.Mutex // guards spans
	spans []collected
}

// collected is a span, and the service.name of the process that made it.
type collected struct {
	*tracev1.Span
	service string
}

func startCollector() *collector {
	c := new(collector)
	c.server = httptest.NewServer(http.HandlerFunc(c.export))
	return c
}

func (c *collector) export(w http.ResponseWriter, r *http.Request) {
	var m collectorv1.ExportTraceServiceRequest
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxExportBody))
	if err == nil {
		err = proto.Unmarshal(b, &m)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		http.Error(w, "want spans at /v1/traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range m.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, collected{s, attribute(of.GetResource().GetAttributes(), "service.name")})
			}
		}
	}
	c.spans = c.spans[max(0, len(c.spans)-maxCollected):]
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer is one that refuses nothing
}

// trace returns the spans of a trace that have come so far.
func (c *collector) trace(id [16]byte) (spans []collected) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if string(s.GetTraceId()) == string(id[:]) {
			spans = append(spans, s)
		}
	}
	return spans
}

// request is the id of the request that a span belongs to.
func (s collected) request() string { return attribute(s.GetAttributes(), "space.request") }

func attribute(all []*commonv1.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
