package e2b

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
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

const (
	// maxTokens bounds the tokens that are remembered, tokensEach those of one sandbox. One that is forgotten still opens its sandbox; URLs that were
	// signed with it don't until it's used again.
	maxTokens, tokensEach = 20_000, 100
	// maxMisses bounds the searches among all tokens that find none, within missTime. Such a search is up to maxTokens hashes, about 10 ms of a core,
	// and anybody can ask for it.
	maxMisses = 10
	missTime  = time.Second
)

// tokens are those that were issued or used here: whom a signed URL belongs to is found by trying them. The newest are kept.
type tokens struct {
	keep func(note) // writes down what changes; nil: nothing is

	mu     sync.Mutex
	known  map[access]*kept
	issued map[grant]access // to whom a token was issued gets it again, for as long as it opens its sandbox
	order  []access         // a ring; what was forgotten is empty
	oldest int
	of     map[string][]access // by the sandbox, from the oldest
	void   map[access]bool     // that were known, and open nothing any more: at most maxVoid

	search sync.Mutex // held by who tries all: one at a time
	misses int        // since missed
	missed time.Time
}

// owner is an API key, by its hash; zero: none.
type owner [sha256.Size]byte

func ownerOf(key string) owner { return sha256.Sum256([]byte(key)) }

// grant is whom a token was issued to, and for which sandbox.
type grant struct {
	owner   owner
	sandbox string
}

// kept is what is known of a token.
type kept struct {
	place int   // in order
	owner owner // to whom it was issued; zero of one that was used only
}

// maxVoid bounds the tokens that are remembered because they open nothing any more.
const maxVoid = 1_000

// remember adds a token that was used.
func (t *tokens) remember(a access) { t.add(a, owner{}) }

// add adds a token, and to whom it was issued if that's known.
func (t *tokens) add(a access, by owner) {
	if t.set(a, by) && t.keep != nil {
		t.keep(noteOf(a, by))
	}
}

// set tells whether that's new.
func (t *tokens) set(a access, by owner) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.known[a]
	switch {
	case k != nil && (by == owner{} || by == k.owner):
		return false
	case k == nil:
		k = t.place(a)
	}
	if k.owner != (owner{}) {
		delete(t.issued, grant{k.owner, a.sandbox})
	}
	if k.owner = by; by != (owner{}) {
		t.issued[grant{by, a.sandbox}] = a
	}
	return true
}

// place finds a place for a token, the oldest's if there's no other.
func (t *tokens) place(a access) *kept {
	if t.known == nil {
		t.known, t.issued, t.of, t.void = map[access]*kept{}, map[grant]access{}, map[string][]access{}, map[access]bool{}
	}
	if its := t.of[a.sandbox]; len(its) >= tokensEach {
		t.drop(its[0])
	}
	k := &kept{place: len(t.order)}
	if len(t.order) < maxTokens {
		t.order = append(t.order, a)
	} else {
		t.drop(t.order[t.oldest])
		k.place, t.order[t.oldest] = t.oldest, a
		t.oldest = (t.oldest + 1) % maxTokens
	}
	t.known[a] = k
	t.of[a.sandbox] = append(t.of[a.sandbox], a)
	return k
}

// issuedTo returns the token of a sandbox that an API key has got before.
func (t *tokens) issuedTo(by owner, sandbox string) (a access, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok = t.issued[grant{by, sandbox}]
	return a, ok
}

// refused forgets a token that opens nothing any more. One that wasn't known is nobody's.
func (t *tokens) refused(a access) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[a] == nil {
		return
	}
	t.drop(a)
	if len(t.void) >= maxVoid {
		clear(t.void)
	}
	t.void[a] = true
}

// isVoid tells whether a token was refused.
func (t *tokens) isVoid(a access) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.void[a]
}

// drop forgets a token, if it's known.
func (t *tokens) drop(a access) {
	k := t.known[a]
	if k == nil {
		return
	}
	delete(t.known, a)
	delete(t.issued, grant{k.owner, a.sandbox})
	t.order[k.place] = access{}
	if its := slices.DeleteFunc(t.of[a.sandbox], func(other access) bool { return other == a }); len(its) > 0 {
		t.of[a.sandbox] = its
	} else {
		delete(t.of, a.sandbox)
	}
}

// forget drops the tokens of a sandbox that is gone. Their places are free for others.
func (t *tokens) forget(sandbox string) {
	if t.dropAll(sandbox) && t.keep != nil {
		t.keep(note{Gone: sandbox})
	}
}

// dropAll tells whether there were any.
func (t *tokens) dropAll(sandbox string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	its := slices.Clone(t.of[sandbox])
	for _, a := range its {
		t.drop(a)
	}
	return len(its) > 0
}

// recall takes up what an earlier life has noted.
func (t *tokens) recall(n note) {
	switch {
	case n.Gone != "":
		t.dropAll(n.Gone)
	case n.Token != nil:
		var by owner
		copy(by[:], n.Token.Owner)
		t.set(access{n.Token.Sandbox, n.Token.Secret}, by)
	}
}

// notes are those of all tokens, from the oldest.
func (t *tokens) notes() []note {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []note
	for i := range t.order {
		a := t.order[(t.oldest+i)%len(t.order)]
		if k := t.known[a]; k != nil {
			out = append(out, noteOf(a, k.owner))
		}
	}
	return out
}

// signer finds the token that a URL was signed with: one of the sandbox, or of all if the sandbox is "".
func (t *tokens) signer(s signed, sandbox string, now time.Time) (access, error) {
	if sandbox == "" {
		return t.anySigner(s, now)
	}
	t.mu.Lock()
	its := slices.Clone(t.of[sandbox])
	t.mu.Unlock()
	return firstSigner(s, its)
}

// anySigner tries all tokens, unless that was too often in vain.
func (t *tokens) anySigner(s signed, now time.Time) (access, error) {
	t.search.Lock()
	defer t.search.Unlock()
	if now.Sub(t.missed) >= missTime {
		t.misses, t.missed = 0, now
	}
	if t.misses >= maxMisses {
		return access{}, refuse(http.StatusTooManyRequests, "too many signatures that are nobody's right now: try again, or name the sandbox with "+headerSandbox)
	}
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.known))
	t.mu.Unlock()
	a, err := firstSigner(s, all)
	if err != nil {
		t.misses++
	}
	return a, err
}

// firstSigner is the first token that a URL was signed with.
func firstSigner(s signed, among []access) (access, error) {
	for _, a := range among {
		if s.by(a.String()) {
			return a, nil
		}
	}
	return access{}, refuse(http.StatusUnauthorized, "invalid signature")
}
