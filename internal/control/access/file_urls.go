package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"strconv"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/program"
	"github.com/space-platform/space/internal/control/record"
)

const (
	// urlLife is how long a URL is good for if its maker doesn't say.
	urlLife = time.Hour
	// MaxURLLife is the longest that a URL can be good for.
	MaxURLLife = 7 * 24 * time.Hour
	// keyBytes is the length of a signing key.
	keyBytes = 32
)

// The operations that a URL can be signed for.
const (
	OperationRead  = "read"
	OperationWrite = "write"
)

// FileURL is one operation on one file until a time.
type FileURL struct {
	Path      string // absolute, in the guest
	Operation string
	User      string // of the guest; empty: the default one
	Expires   int64  // in seconds since 1970
	Signature string
}

// CreateFileURL is what a client asks for.
type CreateFileURL struct {
	Path             string
	Operation        string
	User             string
	ExpiresInSeconds *int // nil: an hour
}

// Signed is a URL that needs no other material.
type Signed struct {
	URL       string
	ExpiresAt time.Time
}

// Sign signs a URL of a file in a project's sandbox, in whatever state that is unless it's deleted. The same request with the same Idempotency-Key
// gets the same URL, unless the sandbox's URLs were voided meanwhile.
func (a *Access) Sign(ctx context.Context, project, sandbox string, c CreateFileURL, r record.Request) (Signed, error) {
	life, err := c.check()
	if err != nil {
		return Signed{}, err
	}
	if _, err := a.living(ctx, project, sandbox); err != nil {
		return Signed{}, err
	}
	key, err := a.key(ctx, sandbox)
	if err != nil {
		return Signed{}, err
	}
	begun := time.Now()
	if r.Key != "" {
		if begun, err = a.store.Claim(ctx, project, r, sandbox); err != nil {
			return Signed{}, err
		}
	}
	u := FileURL{Path: c.Path, Operation: c.Operation, User: c.User, Expires: begun.Add(life).Unix()}
	u.Signature = sign(key, sandbox, u)
	return Signed{URL: a.URL(sandbox) + "/files/content?" + u.query(), ExpiresAt: time.Unix(u.Expires, 0)}, nil
}

func (c CreateFileURL) check() (time.Duration, error) {
	if c.Path == "" {
		return 0, space.FieldErrorf("path", "is required: an absolute path in the sandbox")
	}
	if err := program.CheckDirectory("path", c.Path); err != nil {
		return 0, err
	}
	if c.Operation != OperationRead && c.Operation != OperationWrite {
		return 0, space.FieldErrorf("operation", "is %q: it must be read or write", space.Clip(c.Operation))
	}
	if err := space.CheckUser("user", c.User); err != nil {
		return 0, err
	}
	return seconds("expires_in_seconds", c.ExpiresInSeconds, urlLife, MaxURLLife)
}

// query is the URL's query. The operation isn't in it: the method says it.
func (u FileURL) query() string {
	q := url.Values{"path": {u.Path}, "expires": {strconv.FormatInt(u.Expires, 10)}, "signature": {u.Signature}}
	if u.User != "" {
		q.Set("user", u.User)
	}
	return q.Encode()
}

// key is a sandbox's signing key. The first URL makes it.
func (a *Access) key(ctx context.Context, sandbox string) ([]byte, error) {
	key, err := a.store.FileKey(ctx, sandbox)
	if err != nil || key != nil {
		return key, err
	}
	fresh := make([]byte, keyBytes)
	rand.Read(fresh)
	return a.store.KeepFileKey(ctx, sandbox, fresh)
}

// RevokeFileURLs voids every URL that was signed for a project's sandbox.
func (a *Access) RevokeFileURLs(ctx context.Context, project, sandbox string) error {
	if _, err := a.sandboxes.Get(ctx, project, sandbox); err != nil {
		return err
	}
	return a.store.ForgetFileKey(ctx, project, sandbox)
}

// verify refuses a URL that wasn't signed for a sandbox and what it says, or whose time is over. Errors: unauthenticated, token_expired.
func (a *Access) verify(ctx context.Context, sandbox string, u FileURL) error {
	if err := a.checkSignature(ctx, sandbox, u); err != nil {
		return err
	}
	if time.Now().Unix() >= u.Expires {
		return space.Errorf(space.CodeTokenExpired, "the URL has expired: sign another one")
	}
	return nil
}

// checkSignature refuses a URL that wasn't signed for a sandbox and what it says, under the key that the sandbox has now: unauthenticated.
func (a *Access) checkSignature(ctx context.Context, sandbox string, u FileURL) error {
	key, err := a.store.FileKey(ctx, sandbox)
	if err != nil {
		return err
	}
	// A key that isn't there signs nothing; what is presented is compared with a signature all the same.
	known := len(key) == keyBytes
	if !known {
		key = make([]byte, keyBytes)
	}
	if !hmac.Equal([]byte(sign(key, sandbox, u)), []byte(u.Signature)) || !known {
		return space.Errorf(space.CodeUnauthenticated, "the URL's signature isn't valid for this sandbox, path, user, time and method")
	}
	return nil
}

// sign is the signature of all that a URL says. Each part comes with its length, so that no two URLs have the same parts in a row.
func sign(key []byte, sandbox string, u FileURL) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"space file url v1", sandbox, u.Path, u.Operation, u.User, strconv.FormatInt(u.Expires, 10)} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
