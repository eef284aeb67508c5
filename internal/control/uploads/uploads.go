// Package uploads lets clients bring bytes to a node for a template's build. Creating one writes where they go and issues a token for them;
// the edge turns the token into the upload, and streams the bytes to the node.
package uploads

import (
	"context"
	"crypto/subtle"
	"regexp"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/token"
	"github.com/space-platform/space/internal/control/wake"
)

// MaxBytes bounds an upload; a node takes no larger one.
const MaxBytes = 8 << 30

// maxProjectBytes bounds all uploads of a project together; so does its quota of disk.
const maxProjectBytes = 8 << 30

// Room is how many bytes all uploads of the project of an upload may have together.
func Room(u record.Upload) uint64 {
	if u.DiskQuota == nil {
		return maxProjectBytes
	}
	return uint64(min(*u.DiskQuota, maxProjectBytes))
}

// Store keeps uploads.
type Store interface {
	CreateUpload(ctx context.Context, n record.NewUpload) (id string, err error)
	Upload(ctx context.Context, id string) (record.Upload, error)
	Uploads(ctx context.Context, project string, after record.Position, limit int) ([]record.UploadInfo, error)
	DeleteUpload(ctx context.Context, project, id string) (node string, err error)
}

// Uploads are the uploads of all projects.
type Uploads struct {
	store   Store
	bell    *wake.Bell
	node    string // that takes them
	edgeURL string
}

// New returns the uploads in a store; node takes new ones, which clients send to edgeURL. It rings for the nodes that are to remove some.
func New(store Store, bell *wake.Bell, node, edgeURL string) *Uploads {
	return &Uploads{store: store, bell: bell, node: node, edgeURL: edgeURL}
}

// Ticket is a new upload with its token. It's shown once.
type Ticket struct {
	ID        string
	URL       string // where the bytes are PUT
	Token     string
	ExpiresAt time.Time
}

var digestRE = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Create writes an upload and issues its token. A digest, if one is given, is checked when the bytes are there. apiKey is the key that asks: the
// same request with the same key and Idempotency-Key gets the same upload and token.
func (u *Uploads) Create(ctx context.Context, project, apiKey string, digest *string, r record.Request) (Ticket, error) {
	n := record.NewUpload{ID: space.NewID(space.PrefixUpload), Project: project, Node: u.node, Request: r}
	if digest != nil {
		if !digestRE.MatchString(*digest) {
			return Ticket{}, space.FieldErrorf("sha256", "%q is not a SHA-256 in lower-case hexadecimal: 64 digits", space.Clip(*digest))
		}
		n.SHA256 = *digest
	}
	secret := newSecret(apiKey, n.ID, r)
	n.Token = token.Hash(secret)
	id, err := u.store.CreateUpload(ctx, n)
	if err != nil {
		return Ticket{}, err
	}
	if id != n.ID {
		secret = newSecret(apiKey, id, r)
	}
	made, err := u.store.Upload(ctx, id)
	if err != nil {
		return Ticket{}, err
	}
	if made.Token != token.Hash(secret) {
		return Ticket{}, space.Errorf(space.CodeConflict, "another API key has made the upload of this Idempotency-Key: its token is shown to that key only")
	}
	return Ticket{ID: id, URL: u.edgeURL + "/v1/uploads/" + id, Token: secret, ExpiresAt: made.ExpiresAt}, nil
}

// newSecret is the token of a new upload. With an Idempotency-Key it's derived from the API key, so that the same request gets the same.
func newSecret(apiKey, id string, r record.Request) string {
	if r.Key == "" {
		return token.Upload.Random()
	}
	return token.Upload.Derive(apiKey, "space upload token v1", id)
}

// Resolve turns a token into the upload that it opens.
//
// Errors: unauthenticated (no such upload, or another token than its own), token_expired, conflict (a build was made with its bytes).
func (u *Uploads) Resolve(ctx context.Context, id, secret string) (record.Upload, error) {
	invalid := space.Errorf(space.CodeUnauthenticated, "the upload token isn't valid for this upload")
	if space.CheckID(space.PrefixUpload, id) != nil || !token.Upload.Is(secret) {
		return record.Upload{}, invalid
	}
	found, err := u.store.Upload(ctx, id)
	if space.CodeOf(err) == space.CodeNotFound {
		return record.Upload{}, invalid
	}
	if err != nil {
		return record.Upload{}, err
	}
	hash := token.Hash(secret)
	switch {
	case subtle.ConstantTimeCompare(hash[:], found.Token[:]) != 1:
		return record.Upload{}, invalid
	case found.Deleted:
		return record.Upload{}, invalid
	case found.Expired:
		return record.Upload{}, space.Errorf(space.CodeTokenExpired, "the upload token has expired: create another upload")
	case found.Named:
		return record.Upload{}, space.Errorf(space.CodeConflict, "a template is made of this upload, whose bytes stay what they are: create another upload")
	}
	return found, nil
}

// MaxPage bounds a page of a list.
const MaxPage = 100

// List returns a page of the uploads of a project, newest first, and where the next one begins; the zero position if there's none.
func (u *Uploads) List(ctx context.Context, project string, after record.Position, limit int) ([]record.UploadInfo, record.Position, error) {
	limit = min(limit, MaxPage)
	rows, err := u.store.Uploads(ctx, project, after, limit+1)
	if err != nil || len(rows) <= limit {
		return rows, record.Position{}, err
	}
	last := rows[limit-1]
	return rows[:limit], record.Position{CreatedAt: last.CreatedAt, ID: last.ID}, nil
}

// Delete lets an upload go: it counts no more, and its node is told to remove it. Deleting one again is no error, as long as it's on record.
//
// Errors: not_found, conflict (a build uses it).
func (u *Uploads) Delete(ctx context.Context, project, id string) error {
	if space.CheckID(space.PrefixUpload, id) != nil {
		return space.Errorf(space.CodeNotFound, "the upload does not exist")
	}
	node, err := u.store.DeleteUpload(ctx, project, id)
	if err == nil && node != "" {
		u.bell.Ring(wake.Node(node))
	}
	return err
}
