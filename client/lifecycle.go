package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// The documents of a sandbox's life.
type (
	SandboxUpdate       = gen.SandboxUpdate
	SandboxToken        = gen.SandboxToken
	SandboxTokenCreated = gen.SandboxTokenCreated
	Lifetime            = gen.Lifetime
	Lifecycle           = gen.Lifecycle
	Idle                = gen.Idle
	Rolling             = gen.Rolling
	Tier                = gen.Tier
	Metadata            = gen.Metadata
	Environment         = gen.Environment
	Metrics             = gen.Metrics
	FileURL             = gen.FileURL
	FileURLCreate       = gen.FileURLCreate
)

// StopGrace is how long StopSandbox gives processes between SIGTERM and SIGKILL.
const StopGrace = 10 * time.Second

// StopSandbox ends a sandbox's machine as StopSandboxWithin does, with StopGrace.
func (c *Client) StopSandbox(ctx context.Context, id string) (Sandbox, error) {
	return c.StopSandboxWithin(ctx, id, StopGrace)
}

// StopSandboxWithin ends a sandbox's processes and its machine and waits until it has ended; its disk is kept, its memory isn't. Processes have a
// grace between SIGTERM and SIGKILL: 0 to 5 minutes, whole milliseconds.
func (c *Client) StopSandboxWithin(ctx context.Context, id string, grace time.Duration) (Sandbox, error) {
	within := fmt.Sprintf("%dms", grace.Milliseconds())
	op, err := decode[Operation](c.api.StopSandbox(ctx, id, &gen.StopSandboxParams{Wait: waitParameter(awaitEach), Grace: &within}))
	return c.changed(ctx, "stop", id, op, err)
}

// StartSandbox boots a stopped or lost sandbox from its disk and waits until it runs; it's a new execution.
func (c *Client) StartSandbox(ctx context.Context, id string) (Sandbox, error) {
	op, err := decode[Operation](c.api.StartSandbox(ctx, id, &gen.StartSandboxParams{Wait: waitParameter(awaitEach)}))
	return c.changed(ctx, "start", id, op, err)
}

func (c *Client) changed(ctx context.Context, verb, id string, op Operation, err error) (Sandbox, error) {
	if err == nil {
		op, err = c.Await(ctx, op)
	}
	if err != nil {
		return Sandbox{}, fmt.Errorf("%s sandbox %s: %w", verb, id, err)
	}
	if op.Sandbox == nil {
		return c.GetSandbox(ctx, id)
	}
	return *op.Sandbox, nil
}

// UpdateSandbox changes a sandbox's metadata, environment or lifetime; what is absent stays as it is.
func (c *Client) UpdateSandbox(ctx context.Context, id string, in SandboxUpdate) (Sandbox, error) {
	s, err := decode[Sandbox](c.api.UpdateSandbox(ctx, id, in))
	if err != nil {
		return s, fmt.Errorf("update sandbox %s: %w", id, err)
	}
	return s, nil
}

// Metrics returns the newest figures of a sandbox.
func (c *Client) Metrics(ctx context.Context, id string) (Metrics, error) {
	m, err := decode[Metrics](c.api.GetSandboxMetrics(ctx, id))
	if err != nil {
		return m, fmt.Errorf("get the metrics of sandbox %s: %w", id, err)
	}
	return m, nil
}

// CreateSandboxToken issues a token for the data plane of one sandbox; 0 is the platform's own life time for it.
func (c *Client) CreateSandboxToken(ctx context.Context, id, name string, life time.Duration) (SandboxTokenCreated, error) {
	return c.RepeatSandboxToken(ctx, id, name, life, *idempotencyKey())
}

// RepeatSandboxToken does what CreateSandboxToken does under an Idempotency-Key of the caller's choice: with the same one, the same API key gets
// the same token for a day.
func (c *Client) RepeatSandboxToken(ctx context.Context, id, name string, life time.Duration, key string) (SandboxTokenCreated, error) {
	in := gen.SandboxTokenCreate{Name: given(name)}
	if life > 0 {
		seconds := int(life / time.Second)
		in.ExpiresInSeconds = &seconds
	}
	t, err := decode[SandboxTokenCreated](c.api.CreateSandboxToken(ctx, id, &gen.CreateSandboxTokenParams{IdempotencyKey: &key}, in))
	if err != nil {
		return t, fmt.Errorf("issue a token for sandbox %s: %w", id, err)
	}
	return t, nil
}

// ListSandboxTokens returns a sandbox's tokens that are valid, without their secrets.
func (c *Client) ListSandboxTokens(ctx context.Context, id string) ([]SandboxToken, error) {
	p, err := decode[gen.SandboxTokenPage](c.api.ListSandboxTokens(ctx, id))
	if err != nil {
		return nil, fmt.Errorf("list the tokens of sandbox %s: %w", id, err)
	}
	return p.Items, nil
}

// RevokeSandboxToken ends a token; one that is revoked already stays so.
func (c *Client) RevokeSandboxToken(ctx context.Context, sandbox, token string) error {
	if err := done(c.api.RevokeSandboxToken(ctx, sandbox, token)); err != nil {
		return fmt.Errorf("revoke token %s: %w", token, err)
	}
	return nil
}

// SignFileURL returns a URL that reads or writes one file until a time, with no other material.
func (c *Client) SignFileURL(ctx context.Context, sandbox string, in FileURLCreate) (FileURL, error) {
	u, err := decode[FileURL](c.api.CreateFileURL(ctx, sandbox, &gen.CreateFileURLParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return u, fmt.Errorf("sign a URL for %s: %w", in.Path, err)
	}
	return u, nil
}

// RevokeFileURLs voids every URL that was signed for a sandbox, at once.
func (c *Client) RevokeFileURLs(ctx context.Context, sandbox string) error {
	if err := done(c.api.RevokeFileURLs(ctx, sandbox)); err != nil {
		return fmt.Errorf("revoke the file URLs of sandbox %s: %w", sandbox, err)
	}
	return nil
}

// ListSessions returns a sandbox's sessions, newest first, with how those ended that have. Plane.LiveSessions says what there is in its machine right now.
func (c *Client) ListSessions(ctx context.Context, sandbox string) iter.Seq2[Session, error] {
	return pages(func(cursor *string) (*http.Response, error) {
		return c.api.ListSessions(ctx, sandbox, &gen.ListSessionsParams{Cursor: cursor})
	}, func(p gen.SessionPage) ([]Session, *string) { return p.Items, p.NextCursor })
}
