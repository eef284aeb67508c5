package access

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
)

const (
	// tokenLife is how long a token is good for if its maker doesn't say.
	tokenLife = 24 * time.Hour
	// MaxTokenLife is the longest that a token can be good for.
	MaxTokenLife = 365 * 24 * time.Hour
	// maxTokenName bounds a token's name, in characters.
	maxTokenName = 64
)

// Issued is a new token. The secret is shown once.
type Issued struct {
	Token  record.SandboxToken
	Secret string
	URL    string
}

// CreateToken is what a client asks for.
type CreateToken struct {
	Name             string
	ExpiresInSeconds *int // nil: a day
}

// Create issues a token of a project's sandbox, in whatever state that is unless it's deleted. apiKey is the key that asks: the same request
// with the same key and Idempotency-Key gets the same token.
func (a *Access) Create(ctx context.Context, project, apiKey, sandbox string, c CreateToken, r record.Request) (Issued, error) {
	life, err := c.check()
	if err != nil {
		return Issued{}, err
	}
	if _, err := a.living(ctx, project, sandbox); err != nil {
		return Issued{}, err
	}
	id := space.NewID(space.PrefixToken)
	secret := newSecret(apiKey, id, r)
	made, err := a.store.CreateSandboxToken(ctx, record.NewSandboxToken{
		ID: id, Project: project, Sandbox: sandbox, Name: c.Name, Hash: token.Hash(secret), Life: life, Request: r,
	})
	if err == nil && made != id {
		secret, err = a.again(ctx, newSecret(apiKey, made, r))
	}
	if err != nil {
		return Issued{}, err
	}
	issued, err := a.store.SandboxToken(ctx, project, sandbox, made)
	return Issued{Token: issued, Secret: secret, URL: a.URL(sandbox)}, err
}

// again returns the secret of a token that an earlier request made, if the same API key did.
func (a *Access) again(ctx context.Context, secret string) (string, error) {
	_, err := a.store.Bearer(ctx, token.Hash(secret))
	if space.CodeOf(err) == space.CodeUnauthenticated {
		return "", space.Errorf(space.CodeConflict, "another API key has issued the token of this Idempotency-Key: its secret is shown to that key only")
	}
	return secret, err
}

func (c CreateToken) check() (time.Duration, error) {
	switch {
	case utf8.RuneCountInString(c.Name) > maxTokenName:
		return 0, space.FieldErrorf("name", "has %d characters: at most %d are allowed", utf8.RuneCountInString(c.Name), maxTokenName)
	case strings.ContainsRune(c.Name, 0):
		return 0, space.FieldErrorf("name", "contains a NUL character, which can't be kept")
	}
	return seconds("expires_in_seconds", c.ExpiresInSeconds, tokenLife, MaxTokenLife)
}

// newSecret is the secret of a new token. With an Idempotency-Key it's derived from the API key, so that the same request gets the same
// although only its hash is stored; without one nobody can ever compute it.
func newSecret(apiKey, id string, r record.Request) string {
	if r.Key == "" {
		return token.Sandbox.Random()
	}
	return token.Sandbox.Derive(apiKey, "space sandbox token v1", id)
}

// List returns the valid tokens of a project's sandbox, newest first.
func (a *Access) List(ctx context.Context, project, sandbox string) ([]record.SandboxToken, error) {
	if _, err := a.sandboxes.Get(ctx, project, sandbox); err != nil {
		return nil, err
	}
	return a.store.SandboxTokens(ctx, sandbox)
}

// Revoke ends a token at once: nothing new is opened with it. One that is revoked stays so.
func (a *Access) Revoke(ctx context.Context, project, sandbox, id string) error {
	if space.CheckID(space.PrefixSandbox, sandbox) != nil || space.CheckID(space.PrefixToken, id) != nil {
		return space.Errorf(space.CodeNotFound, "the token does not exist")
	}
	return a.store.RevokeSandboxToken(ctx, project, sandbox, id)
}

// Bearer returns whom a token stands for, when it's shown for a sandbox. Errors: unauthenticated, forbidden (another sandbox's),
// token_expired.
func (a *Access) Bearer(ctx context.Context, secret, sandbox string) (record.Bearer, error) {
	if !token.Sandbox.Is(secret) {
		return record.Bearer{}, refuseToken(secret)
	}
	b, err := a.store.Bearer(ctx, token.Hash(secret))
	switch {
	case err != nil:
		return record.Bearer{}, err
	case b.Revoked:
		return record.Bearer{}, space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
	case b.Sandbox != sandbox:
		return record.Bearer{}, space.Errorf(space.CodeForbidden, "the token doesn't open this sandbox")
	case b.Expired:
		return record.Bearer{}, space.Errorf(space.CodeTokenExpired, "the token has expired: create another one")
	}
	return b, nil
}

// refuseToken answers for what is no sandbox token, with a word for those who mix them up.
func refuseToken(secret string) error {
	switch {
	case strings.HasPrefix(secret, string(token.Attachment)):
		return space.Errorf(space.CodeUnauthenticated, "an attachment token opens its session only: use a sandbox token")
	case strings.HasPrefix(secret, "space_"), strings.HasPrefix(secret, "e2b_"):
		return space.Errorf(space.CodeUnauthenticated, "an API key opens no data plane: use a sandbox token")
	}
	return space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
}
