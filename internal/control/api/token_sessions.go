package api

import (
	"context"
	"encoding/json"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/access"
	"github.com/space-platform/space/internal/control/dataplane"
	"github.com/space-platform/space/internal/control/sessions"
	"github.com/space-platform/space/internal/strictjson"
)

// TokenSessions creates sessions for holders of sandbox tokens: the same body, checks and answer as createSession has for a key.
type TokenSessions struct {
	Access   *access.Access
	Sessions *sessions.Sessions
}

// CreateSession creates a session in the sandbox that a token opens, from the JSON of a SessionCreate, and returns the JSON of a
// SessionCreated. An Idempotency-Key is the sandbox's: it's never taken for one that a key of the project has used. Who attaches at once gets what
// there is to attach to with it, if there is.
func (t TokenSessions) CreateSession(ctx context.Context, sandbox, token, idempotencyKey string, body []byte, attach bool) (dataplane.Session, error) {
	bearer, err := t.Access.Bearer(ctx, token, sandbox)
	if err != nil {
		return dataplane.Session{}, err
	}
	if len(body) > maxSessionBody {
		return dataplane.Session{}, space.Errorf(space.CodeTooLarge, "the body is over its limit of %d bytes", maxSessionBody)
	}
	var in gen.SessionCreate
	if err := strictjson.Decode(body, &in); err != nil {
		return dataplane.Session{}, err
	}
	request, err := readRequest(notEmpty(idempotencyKey), "createSession", sandbox, &in)
	if err != nil {
		return dataplane.Session{}, err
	}
	if request.Key != "" {
		request.Key = sandbox + "/" + request.Key
	}
	create := t.Sessions.Create
	if attach {
		create = t.Sessions.CreateToAttach
	}
	made, err := create(ctx, sessions.Caller{Project: bearer.Project, Key: token, Token: bearer.Token}, sandbox, readSession(&in), request)
	if err != nil {
		return dataplane.Session{}, err
	}
	out, err := json.Marshal(gen.SessionCreated{Session: renderSession(made.Session), Attachment: renderAttachment(made.Attachment)})
	return dataplane.Session{ID: made.Session.ID, Document: out, Target: made.Target}, err
}
