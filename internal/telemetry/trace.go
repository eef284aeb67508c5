package telemetry

import (
	"context"
	"net/http"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// tracer makes the process's spans; nil while nobody wants any.
var tracer atomic.Pointer[trace.Tracer]

// wire is how spans travel between processes.
var wire = propagation.TraceContext{}

// Trace has the process make spans and give them to p; a nil p ends that.
func Trace(p trace.TracerProvider) {
	if p == nil {
		tracer.Store(nil)
		return
	}
	t := p.Tracer("github.com/space-platform/space/internal/telemetry")
	tracer.Store(&t)
}

// finish ends a span with how it went.
type finish func(outcome string, failed bool)

// serveSpan begins the span of a request that came with headers; the caller's span is its parent.
func serveSpan(ctx context.Context, name string, h http.Header) (context.Context, finish) {
	if tracer.Load() == nil {
		return ctx, func(string, bool) {}
	}
	return begin(wire.Extract(ctx, propagation.HeaderCarrier(h)), name, trace.SpanKindServer)
}

// callSpan begins the span of a call to another process, which learns of it in headers.
func callSpan(ctx context.Context, name string, h http.Header) (context.Context, finish) {
	if tracer.Load() == nil {
		return ctx, func(string, bool) {}
	}
	ctx, end := begin(ctx, name, trace.SpanKindClient)
	wire.Inject(ctx, propagation.HeaderCarrier(h))
	return ctx, end
}

// Pass leaves a span without a duration: something passes by that belongs to ctx.
func Pass(ctx context.Context, what string) {
	_, end := begin(ctx, what, trace.SpanKindInternal)
	end("ok", false)
}

func begin(ctx context.Context, name string, kind trace.SpanKind) (context.Context, finish) {
	t := tracer.Load()
	if t == nil {
		return ctx, func(string, bool) {}
	}
	ctx, s := (*t).Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attribute.String("space.request", Request(ctx))))
	return ctx, func(outcome string, failed bool) {
		s.SetAttributes(attribute.String("space.outcome", outcome))
		if failed {
			s.SetStatus(codes.Error, outcome)
		}
		s.End()
	}
}
