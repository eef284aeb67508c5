package sessions

import (
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/token"
)

// tokenLife is how long an attachment token opens its session for new attaches. A stream that is open goes on.
const tokenLife = time.Hour

// firstToken is the token that the creation of a session answers with. It's derived from the API key or the sandbox token that asked.
func firstToken(key, session string) string {
	return token.Attachment.Derive(key, "space first attachment token v1", session)
}

// furtherToken is the one with which a request for another one is answered, by its Idempotency-Key.
func furtherToken(key, session, idempotencyKey string) string {
	return token.Attachment.Derive(key, "space further attachment token v1", session, idempotencyKey)
}

// refuseToken answers for what is no token at all, with a word for those who mix them up.
func refuseToken(secret string) error {
	if strings.HasPrefix(secret, "space_") || strings.HasPrefix(secret, "e2b_") {
		return space.Errorf(space.CodeUnauthenticated, "an API key opens no data plane: use the session's attachment token, or a sandbox token")
	}
	return space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
}
