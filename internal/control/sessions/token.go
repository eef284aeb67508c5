package sessions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// tokenLife is how long an attachment token opens its session for new attaches. A stream that is open goes on.
const tokenLife = time.Hour

// A token is spaceatt_ and 256 bits.
var (
	tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	tokenRE       = regexp.MustCompile(`^spaceatt_[a-z2-7]{52}$`)
)

const tokenPrefix = "spaceatt_"

// randomToken is a token that nobody can know.
func randomToken() string {
	var b [32]byte
	rand.Read(b[:])
	return tokenPrefix + tokenEncoding.EncodeToString(b[:])
}

// firstToken is the token that the creation of a session answers with. It's derived from the API key or the sandbox token that asked, so that
// a repeated request with the same Idempotency-Key gets the same token although only its hash is stored: who has the key may have the token,
// and nobody else can compute it.
func firstToken(key, session string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("space first attachment token v1\x00" + session))
	return tokenPrefix + tokenEncoding.EncodeToString(mac.Sum(nil))
}

func hash(token string) record.TokenHash { return sha256.Sum256([]byte(token)) }

func isAttachment(token string) bool { return tokenRE.MatchString(token) }

// refuseToken answers for what is no token at all, with a word for those who mix them up.
func refuseToken(token string) error {
	if strings.HasPrefix(token, "space_") || strings.HasPrefix(token, "e2b_") {
		return space.Errorf(space.CodeUnauthenticated, "an API key opens no data plane: use the session's attachment token, or a sandbox token")
	}
	return space.Errorf(space.CodeUnauthenticated, "the token isn't valid")
}
