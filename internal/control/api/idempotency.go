package api

import (
	"crypto/sha256"
	"encoding/json"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// readRequest identifies a request that creates something: by its key, and by what is asked for where. Members in another order are
// the same request.
func readRequest(key *string, operation, where string, body any) (record.Request, error) {
	if key == nil {
		return record.Request{}, nil
	}
	if err := space.CheckIdempotencyKey(*key); err != nil {
		return record.Request{}, err
	}
	b, err := json.Marshal([]any{operation, where, body})
	if err != nil {
		return record.Request{}, err
	}
	return record.Request{Key: *key, Hash: sha256.Sum256(b)}, nil
}
