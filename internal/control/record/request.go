package record

import "time"

// IdempotencyKept is how long an Idempotency-Key is remembered.
const IdempotencyKept = 24 * time.Hour

// Request identifies a creating request by its Idempotency-Key, so that it makes its thing once. Without a key it is the zero value.
type Request struct {
	Key  string
	Hash [32]byte // of what is asked for: the same key with another hash is a mistake
}
