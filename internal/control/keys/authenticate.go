package keys

import (
	"context"
	"strings"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// Recognizer finds keys by what clients present.
type Recognizer interface {
	KeyByHash(ctx context.Context, hash record.KeyHash) (record.Key, error)
	TouchKey(ctx context.Context, id string) error
}

// Authenticate returns the key that a client presents; unauthenticated if it isn't one, is revoked or has expired. The error doesn't say
// which. The lookup is by a hash of at least 160 random bits: what its time tells of the hash says nothing of the key.
func Authenticate(ctx context.Context, store Recognizer, key string) (record.Key, error) {
	if strings.HasPrefix(key, "spaceatt_") || strings.HasPrefix(key, "spacesbx_") || strings.HasPrefix(key, "spaceupl_") {
		return record.Key{}, space.Errorf(space.CodeUnauthenticated, "a token of the data plane opens no management API: use an API key")
	}
	if !keyRE.MatchString(key) {
		return record.Key{}, invalid()
	}
	k, err := store.KeyByHash(ctx, hash(key))
	if space.CodeOf(err) == space.CodeNotFound || err == nil && !k.Valid {
		return record.Key{}, invalid()
	}
	if err != nil {
		return record.Key{}, err
	}
	return k, touch(ctx, store, k)
}

func touch(ctx context.Context, store Recognizer, k record.Key) error {
	if time.Since(k.LastUsedAt) < touchEvery {
		return nil
	}
	return store.TouchKey(ctx, k.ID)
}

func invalid() error {
	return space.Errorf(space.CodeUnauthenticated, "the API key isn't valid: it may be mistyped, revoked or expired")
}
