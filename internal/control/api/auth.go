package api

import (
	"context"
	"strings"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sessions"
	"github.com/space-platform/space/internal/control/wake"
)

type callerKey struct{}

// identity is who asks: an API key as the store knows it, and the key itself.
type identity struct {
	key    record.Key
	secret string
}

// authenticator knows the API keys.
type authenticator struct {
	store keys.Recognizer
	bell  *wake.Bell
}

// authenticate returns who a request is from, by the values of its Authorization header.
func (a authenticator) authenticate(ctx context.Context, headers []string) (identity, error) {
	if len(headers) == 0 {
		return identity{}, space.Errorf(space.CodeUnauthenticated, "no API key: send it as 'Authorization: Bearer space_…'")
	}
	scheme, key, _ := strings.Cut(headers[0], " ")
	if len(headers) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return identity{}, space.Errorf(space.CodeUnauthenticated, "the Authorization header must be 'Bearer space_…', once")
	}
	secret := strings.TrimSpace(key)
	k, err := keys.Authenticate(ctx, a.store, secret)
	return identity{key: k, secret: secret}, err
}

// permit refuses a caller whose role lacks what an operation needs. It's asked before anything is looked up, so it tells nothing of what
// exists.
func permit(k record.Key, needs space.Permission) error {
	if k.Role().May(needs) {
		return nil
	}
	return space.Errorf(space.CodeForbidden, "the key's role %s doesn't have the permission %s, which this operation needs; GET /v1/roles shows who has it", k.Role(), needs)
}

// caller is who asks, as the use cases of sandboxes and sessions know it. Behind the door there is always one.
func caller(ctx context.Context) sessions.Caller {
	i := who(ctx)
	return sessions.Caller{Project: i.key.Project, Key: i.secret}
}

// who is who asks. Behind the door there is always one.
func who(ctx context.Context) identity {
	i, ok := ctx.Value(callerKey{}).(identity)
	if !ok {
		panic("a request without a caller came through the door")
	}
	return i
}
