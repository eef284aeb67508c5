// Package access has what opens the data plane of one sandbox without an API key: tokens, and signed URLs of single files. Both are issued
// against a key and belong to the sandbox, not to an execution of it: they survive stop and start, and end with the sandbox.
//
// A token is "spacesbx_" and 256 random bits; the store has its SHA-256. It expires, and may be revoked.
//
// A signed URL is good for one operation on one path as one user until a time, and needs no other material. It's signed under a random key
// of the sandbox, which is made for the first URL and kept sealed. There's nothing kept of a URL, so it can't be revoked by itself: to
// revoke is to forget the key, which voids every URL of the sandbox at once. The next one is signed under a new key.
package access

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
)

// Store keeps tokens and signing keys.
type Store interface {
	CreateSandboxToken(ctx context.Context, n record.NewSandboxToken) (id string, err error)
	SandboxToken(ctx context.Context, project, sandbox, id string) (record.SandboxToken, error)
	SandboxTokens(ctx context.Context, sandbox string) ([]record.SandboxToken, error)
	RevokeSandboxToken(ctx context.Context, project, sandbox, id string) error
	Bearer(ctx context.Context, token record.TokenHash) (record.Bearer, error)
	EndedTokens(ctx context.Context, tokens []record.TokenHash) ([]record.EndedToken, error)
	Claim(ctx context.Context, project string, r record.Request, resource string) (at time.Time, err error)
	SandboxProject(ctx context.Context, sandbox string) (string, error)
	FileKey(ctx context.Context, sandbox string) ([]byte, error)
	KeepFileKey(ctx context.Context, sandbox string, key []byte) ([]byte, error)
	ForgetFileKey(ctx context.Context, project, sandbox string) error
}

// Sandboxes finds sandboxes.
type Sandboxes interface {
	Waker
	Get(ctx context.Context, project, id string) (record.Sandbox, error)
}

// Activity is told when something is done with a sandbox.
type Activity interface {
	Seen(sandbox string, at time.Time)
}

// Access opens the sandboxes of all projects.
type Access struct {
	store     Store
	sandboxes Sandboxes
	activity  Activity
	bell      *wake.Bell
	waits     Waits
	edgeURL   string
}

// New returns the access to the sandboxes in a store, whose data plane is at edgeURL. Whoever records something new of a sandbox rings its
// id.
func New(store Store, sandboxes Sandboxes, activity Activity, bell *wake.Bell, edgeURL string) *Access {
	return &Access{store: store, sandboxes: sandboxes, activity: activity, bell: bell, edgeURL: edgeURL}
}

// URL is a sandbox's address on the data plane.
func (a *Access) URL(sandbox string) string { return a.edgeURL + "/v1/sandboxes/" + sandbox }

// living returns a project's sandbox unless it's deleted.
func (a *Access) living(ctx context.Context, project, sandbox string) (record.Sandbox, error) {
	box, err := a.sandboxes.Get(ctx, project, sandbox)
	if err == nil && box.Desired == record.DesiredDeleted {
		err = space.Errorf(space.CodeConflict, "the sandbox is deleted")
	}
	return box, err
}

// seconds checks a time that is asked for in seconds; nil is the given one.
func seconds(field string, n *int, absent, most time.Duration) (time.Duration, error) {
	if n == nil {
		return absent, nil
	}
	if limit := int(most / time.Second); *n < 1 || *n > limit {
		return 0, space.FieldErrorf(field, "is %d: it must be 1 to %d", *n, limit)
	}
	return time.Duration(*n) * time.Second, nil
}
