package space

import "regexp"

// Limits of what clients name, in characters.
const (
	MaxUser           = 64
	MaxIdempotencyKey = 128
)

var (
	accountRE        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	userRE           = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)
	idempotencyKeyRE = regexp.MustCompile(`^[!-~]+$`)
)

// CheckUser refuses what can't be USER or USER:GROUP, each a name or a number in a sandbox. Empty is allowed: none is given.
func CheckUser(field, user string) error {
	return checkAccount(field, user, userRE, "USER or USER:GROUP, names or numbers")
}

// CheckAccount refuses what can't be the name or the number of a user or a group in a sandbox. Empty is allowed: none is given.
func CheckAccount(field, name string) error {
	return checkAccount(field, name, accountRE, "a user's or group's name or number")
}

func checkAccount(field, given string, allowed *regexp.Regexp, what string) error {
	switch {
	case len(given) > MaxUser:
		return FieldErrorf(field, "has %d characters: at most %d are allowed", len(given), MaxUser)
	case given != "" && !allowed.MatchString(given):
		return FieldErrorf(field, "%q is not %s", given, what)
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
