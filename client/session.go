package client

import (
	"context"
	"fmt"

	gen "github.com/space-platform/space/api/gen/http"
)

// CreateSession creates a session, one command in a sandbox. Its first Attach starts it.
func (c *Client) CreateSession(ctx context.Context, sandbox string, in SessionCreate) (SessionCreated, error) {
	s, err := decode[SessionCreated](c.api.CreateSession(ctx, sandbox, &gen.CreateSessionParams{IdempotencyKey: idempotencyKey()}, in))
	if err != nil {
		return SessionCreated{}, fmt.Errorf("create session in %s: %w", sandbox, err)
	}
	return s, nil
}

// GetSession returns a session.
func (c *Client) GetSession(ctx context.Context, sandbox, session string) (Session, error) {
	s, err := decode[Session](c.api.GetSession(ctx, sandbox, session))
	if err != nil {
		return Session{}, fmt.Errorf("get session %s: %w", session, err)
	}
	return s, nil
}

// CreateAttachment issues another token for a session: for attaching to one that somebody else created, or again after the first expired.
func (c *Client) CreateAttachment(ctx context.Context, sandbox, session string) (Attachment, error) {
	a, err := decode[Attachment](c.api.CreateAttachment(ctx, sandbox, session, &gen.CreateAttachmentParams{IdempotencyKey: idempotencyKey()}))
	if err != nil {
		return Attachment{}, fmt.Errorf("attach to session %s: %w", session, err)
	}
	return a, nil
}
