package space

import "regexp"

// Limits of what clients name, in characters.
const (
	MaxUser           = 64
	MaxIdempotencyKey = 128
)

var (
	userRE           = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	idempotencyKeyRE = regexp.MustCompile(`^[!-~]+$`)
)

// CheckUser refuses what can't be the name or the number of a user in a sandbox. Empty is allowed: none is given.
func CheckUser(field, user string) error {
	switch {
	case len(user) > MaxUser:
		return FieldErrorf(field, "has %d characters: at most %d are allowed", len(user), MaxUser)
	case user != "" && !userRE.MatchString(user):
		return FieldErrorf(field, "%q is not a user's name or number", user)
	}
	return nil
}

// IdempotencyKey is the header that makes a create repeatable.
const IdempotencyKey = "Idempotency-Key"

// CheckIdempotencyKey refuses what can't be such a header's value.
func CheckIdempotencyKey(key string) error {
	if len(key) > MaxIdempotencyKey || !idempotencyKeyRE.MatchString(key) {
		return FieldErrorf(IdempotencyKey, "must be 1 to %d visible ASCII characters", MaxIdempotencyKey)
	}
	return nil
}
