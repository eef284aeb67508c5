// Package keys issues API keys and recognizes them. A key is "space_", eight characters that may be shown, "_", and 256 random bits;
// the store has its visible beginning and its SHA-256, never the key.
package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"regexp"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

const (
	scheme       = "space_"
	visibleBytes = 5  // 8 characters
	secretBytes  = 32 // 52 characters
	// touchEvery is how exactly it is known when a key was last used.
	touchEvery = time.Hour
)

var (
	encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	keyRE    = regexp.MustCompile(`^space_[a-z2-7]{8}_[a-z2-7]{52}$`)
)

// Store keeps keys.
type Store interface {
	CreateKey(ctx context.Context, k record.NewKey) error
	Key(ctx context.Context, prefix string) (record.Key, error)
	TouchKey(ctx context.Context, id string) error
}

// Issued is a new key. It's shown once.
type Issued struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Prefix string `json:"prefix"` // its visible beginning
}

// Issue makes a key of a project. The name says what it is for.
func Issue(ctx context.Context, store Store, project, name string) (Issued, error) {
	prefix := scheme + random(visibleBytes)
	out := Issued{ID: space.NewID(space.PrefixKey), Key: prefix + "_" + random(secretBytes), Prefix: prefix}
	err := store.CreateKey(ctx, record.NewKey{ID: out.ID, Project: project, Name: name, Prefix: prefix, Hash: sha256.Sum256([]byte(out.Key))})
	return out, err
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return encoding.EncodeToString(b)
}

// Authenticate returns the key that a client presents; unauthenticated if it isn't one, or is revoked. The errors don't say which.
func Authenticate(ctx context.Context, store Store, key string) (record.Key, error) {
	if strings.HasPrefix(key, "spaceatt_") {
		return record.Key{}, space.Errorf(space.CodeUnauthenticated, "an attachment token opens no management API: use an API key")
	}
	if !keyRE.MatchString(key) {
		return record.Key{}, invalid()
	}
	k, err := store.Key(ctx, key[:strings.LastIndexByte(key, '_')])
	if space.CodeOf(err) == space.CodeNotFound {
		return record.Key{}, invalid()
	}
	if err != nil {
		return record.Key{}, err
	}
	hash := sha256.Sum256([]byte(key))
	if subtle.ConstantTimeCompare(hash[:], k.Hash[:]) != 1 || k.Revoked {
		return record.Key{}, invalid()
	}
	return k, touch(ctx, store, k)
}

func touch(ctx context.Context, store Store, k record.Key) error {
	if time.Since(k.LastUsedAt) < touchEvery {
		return nil
	}
	return store.TouchKey(ctx, k.ID)
}

func invalid() error { return space.Errorf(space.CodeUnauthenticated, "the API key isn't valid") }
