package api

import (
	"context"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/sessions"
)

type callerKey struct{}

// authenticator knows the API keys.
type authenticator struct {
	store keys.Store
}

// authenticate returns a context that knows the caller, from the values of the Authorization header.
func (a authenticator) authenticate(ctx context.Context, headers []string) (context.Context, error) {
	if len(headers) == 0 {
		return nil, space.Errorf(space.CodeUnauthenticated, "no API key: send it as 'Authorization: Bearer space_…'")
	}
	scheme, key, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return nil, space.Errorf(space.CodeUnauthenticated, "the Authorization header must be 'Bearer space_…', once")
	}
	k, err := keys.Authenticate(ctx, a.store, strings.TrimSpace(key))
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, callerKey{}, sessions.Caller{Project: k.Project, Key: strings.TrimSpace(key)}), nil
}

// caller is who asks. Behind the door there is always one.
func caller(ctx context.Context) sessions.Caller {
	c, ok := ctx.Value(callerKey{}).(sessions.Caller)
	if !ok {
		panic("a request without a caller came through the door")
	}
	return c
}
