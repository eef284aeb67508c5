package e2b

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	space "github.com/space-platform/space"
)

// tokenLife is how long an envd access token opens its sandbox: longer than a sandbox that is paused again and again. It's the platform's maximum.
const tokenLife = 365 * 24 * time.Hour

// publicID is a sandbox's id in E2B's form.
func publicID(sandbox string) string { return space.HostLabel(sandbox) }

// sandboxID is the platform's id of a sandbox that an SDK names. What can't be an id is no sandbox's. Old SDKs add "-" and a client's id.
func sandboxID(public string) (string, error) {
	id, _, _ := strings.Cut(public, "-")
	id = string(space.PrefixSandbox) + "_" + id
	if space.CheckID(space.PrefixSandbox, id) != nil {
		return "", noSandbox(public)
	}
	return id, nil
}

func noSandbox(public string) error {
	return refuse(http.StatusNotFound, "sandbox %q doesn't exist", space.Clip(public))
}

// access is what opens the data plane of one sandbox. To the SDKs it's an opaque string, the envd access token: the id in it routes a request
// that names no sandbox.
type access struct {
	sandbox string // sbx_…
	secret  string // spacesbx_…
}

// String is the envd access token.
func (a access) String() string { return publicID(a.sandbox) + "." + a.secret }

// parseAccess reads an envd access token. That it opens anything isn't known.
func parseAccess(token string) (a access, ok bool) {
	id, secret, found := strings.Cut(token, ".")
	sandbox, err := sandboxID(id)
	return access{sandbox, secret}, found && err == nil && secret != "" && len(token) <= maxToken
}

// maxToken bounds an envd access token, in bytes. Ours are below 100.
const maxToken = 256

// repeatKey is the Idempotency-Key under which a sandbox's token is issued, so that an API key gets the same one with each connect of a day. Another
// key of the project couldn't be shown it, and gets its own.
func repeatKey(sandbox, apiKey string) string {
	sum := sha256.Sum256([]byte("e2b access\x00" + sandbox + "\x00" + apiKey))
	return "e2b-" + hex.EncodeToString(sum[:16])
}

// Operations of a signed URL.
const (
	operationRead  = "read"
	operationWrite = "write"
)

// signed is what a signed URL says. It doesn't say of which sandbox it is.
type signed struct {
	path, operation, user string
	expiration            string // seconds since 1970; "" for never
	signature             string
}

// by tells whether it was signed with a token.
func (s signed) by(token string) bool {
	return subtle.ConstantTimeCompare([]byte(signatureOf(s, token)), []byte(s.signature)) == 1
}

// signatureOf is the signature of a URL under a token.
func signatureOf(s signed, token string) string {
	text := s.path + ":" + s.operation + ":" + s.user + ":" + token
	if s.expiration != "" {
		text += ":" + s.expiration
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// expired tells whether its time is over.
func (s signed) expired(now time.Time) bool {
	if s.expiration == "" {
		return false
	}
	until, err := strconv.ParseInt(s.expiration, 10, 64)
	return err != nil || now.Unix() > until
}

// maxTokens bounds the tokens that are remembered. One that is forgotten still opens its sandbox; URLs that were signed with it don't until it's
// used again.
const maxTokens = 20_000

// tokens are those that were issued or used here: whom a signed URL belongs to is found by trying them. The newest are kept.
type tokens struct {
	mu     sync.Mutex
	known  map[access]int // to their place in order
	order  []access       // a ring
	oldest int
}

// remember adds a token.
func (t *tokens) remember(a access) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.known[a]; ok {
		return
	}
	if t.known == nil {
		t.known = map[access]int{}
	}
	if len(t.order) < maxTokens {
		t.known[a] = len(t.order)
		t.order = append(t.order, a)
		return
	}
	delete(t.known, t.order[t.oldest])
	t.order[t.oldest], t.known[a] = a, t.oldest
	t.oldest = (t.oldest + 1) % maxTokens
}

// forget drops the tokens of a sandbox that is gone. Their places are free for others.
func (t *tokens) forget(sandbox string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a, place := range t.known {
		if a.sandbox == sandbox {
			delete(t.known, a)
			t.order[place] = access{}
		}
	}
}

// signer finds the token that a URL was signed with.
func (t *tokens) signer(s signed) (access, bool) {
	t.mu.Lock()
	all := make([]access, 0, len(t.known))
	for a := range t.known {
		all = append(all, a)
	}
	t.mu.Unlock()
	for _, a := range all {
		if s.by(a.String()) {
			return a, true
		}
	}
	return access{}, false
}
