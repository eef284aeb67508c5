package api

import (
	"crypto/sha256"
	"encoding/json"
	"regexp"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// maxIdempotencyKey bounds an Idempotency-Key.
const maxIdempotencyKey = 128

var idempotencyRE = regexp.MustCompile(`^[!-~]+$`)

// readRequest identifies a request that creates something: by its key, and by what is asked for where. Members in another order are
// the same request.
func readRequest(key *string, operation, where string, body any) (record.Request, error) {
	if key == nil {
		return record.Request{}, nil
	}
	if len(*key) > maxIdempotencyKey || !idempotencyRE.MatchString(*key) {
		return record.Request{}, space.FieldErrorf("Idempotency-Key", "must be 1 to %d visible ASCII characters", maxIdempotencyKey)
	}
	b, err := json.Marshal([]any{operation, where, body})
	if err != nil {
		return record.Request{}, err
	}
	return record.Request{Key: *key, Hash: sha256.Sum256(b)}, nil
}
