package telemetry

import (
	"context"
	"regexp"
)

// RequestHeader is the header in which a request's id travels, to the client as well.
const RequestHeader = "X-Request-Id"

// requestRE is what is taken for a request's id off the wire; whatever else a peer sends is none.
var requestRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

type requestKey struct{}

// WithRequest returns a context in which a request has an id.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Request returns the id of the request that ctx belongs to; empty if it belongs to none.
func Request(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
