package telemetry

import (
	"context"
	"regexp"

	"go.opentelemetry.io/otel/propagation"
)

// traceparentHeader is the header of W3C's trace context, and the key under which it's in a carrier.
const traceparentHeader = "traceparent"

// traceparentRE is what is taken for a trace context that was kept; whatever else is none.
var traceparentRE = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Cause is what work belongs to that is done later, perhaps by another process: the request that asked for it, and its span. It can be kept and
// sent. The zero Cause is that of work that nobody asked for.
type Cause struct {
	Request     string `json:"request,omitempty"`     // the request's id
	Traceparent string `json:"traceparent,omitempty"` // W3C's; empty while the process makes no spans
}

// CauseOf is what ctx belongs to.
func CauseOf(ctx context.Context) Cause {
	carrier := propagation.MapCarrier{}
	wire.Inject(ctx, carrier)
	return Cause{Request: Request(ctx), Traceparent: carrier[traceparentHeader]}
}

// In returns a context that belongs to a cause, as far as it's well-formed.
func (c Cause) In(ctx context.Context) context.Context {
	c = c.WellFormed()
	if c.Request != "" {
		ctx = WithRequest(ctx, c.Request)
	}
	if c.Traceparent != "" {
		ctx = wire.Extract(ctx, propagation.MapCarrier{traceparentHeader: c.Traceparent})
	}
	return ctx
}

// WellFormed is what of a cause can be a request and a span: of one that came over the wire the rest is left out.
func (c Cause) WellFormed() Cause {
	if !requestRE.MatchString(c.Request) {
		c.Request = ""
	}
	if !traceparentRE.MatchString(c.Traceparent) {
		c.Traceparent = ""
	}
	return c
}
