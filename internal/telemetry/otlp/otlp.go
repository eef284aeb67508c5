// Package otlp sends a process's spans to a collector of the operator's, over OTLP/HTTP.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/space-platform/space/internal/telemetry"
)

// Limits of what is kept for a collector. When it's away, spans are dropped; nothing waits for it.
const (
	maxSpans    = 2048 // waiting to be sent
	maxBatch    = 256
	sendEvery   = 2 * time.Second
	sendTimeout = 5 * time.Second
)

// Config says where spans go and whose they are.
type Config struct {
	Endpoint string // the collector's base URL; "" for none
	Service  string // this process's name
	Version  string
}

// Start has the process make spans and send them. stop sends what is left, for at most its context's time. Without an endpoint both do
// nothing.
func Start(ctx context.Context, c Config) (stop func(context.Context) error, err error) {
	if c.Endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	if err := Check(c.Endpoint); err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(traces(c.Endpoint)), otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", c.Endpoint, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces were not sent", "err", err) }))
	p := trace.NewTracerProvider(
		trace.WithBatcher(exporter, trace.WithMaxQueueSize(maxSpans), trace.WithMaxExportBatchSize(maxBatch), trace.WithBatchTimeout(sendEvery), trace.WithExportTimeout(sendTimeout)),
		trace.WithSampler(trace.AlwaysSample()), // a client's wish isn't the operator's
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version))),
	)
	telemetry.Trace(p)
	return func(ctx context.Context) error { telemetry.Trace(nil); return p.Shutdown(ctx) }, nil
}

// Check refuses what isn't a collector's base URL: http or https and a host, without user, query or fragment.
func Check(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil { // which repeats the address, and so perhaps a password
		return errors.New("the collector's address can't be read: it is like http://127.0.0.1:4318")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("the collector's address is a scheme, http or https, a host and perhaps a path, and nothing more, like http://127.0.0.1:4318")
	}
	return nil
}

// traces is where a collector takes spans: OTLP names the path below its base URL.
func traces(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	return u.JoinPath("v1", "traces").String()
}
