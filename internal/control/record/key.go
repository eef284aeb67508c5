package record

import (
	"time"

	space "github.com/space-platform/space"
)

// KeyHash is the SHA-256 of a whole API key.
type KeyHash [32]byte

// Key is an API key as the store knows it: never the key itself.
type Key struct {
	ID         string
	Name       string
	Project    string
	Org        string
	Prefix     string     // its visible beginning
	Granted    space.Role // what it was made for
	Holder     string     // the user whose key it is; empty: nobody's
	HolderRole space.Role // what they may do
	Valid      bool       // neither revoked nor expired, its project and its user are there
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero if it isn't
	LastUsedAt time.Time // coarse; zero if never
}

// Role is what the key may do: no more than it was made for, and no more than its user may.
func (k Key) Role() space.Role {
	if k.Holder == "" {
		return k.Granted
	}
	return k.Granted.Lower(k.HolderRole)
}

// NewKey is a key to be stored.
type NewKey struct {
	ID        string
	Project   string
	Name      string
	Prefix    string
	Hash      KeyHash
	Role      space.Role
	Holder    string    // empty: nobody's
	ExpiresAt time.Time // zero: never
}

// KeyScope is which keys are meant: those of one project, or of all projects of an organisation.
type KeyScope struct {
	Org     string
	Project string // empty: all
}
