package space

import (
	"strings"
	"testing"
)

func TestCheckUser(t *testing.T) {
	for user, ok := range map[string]bool{
		"": true, "root": true, "1000": true, "www-data": true, "a.b_c-": true, "_apt": true, strings.Repeat("u", MaxUser): true,
		strings.Repeat("u", MaxUser+1): false, "-x": false, ".": false, "a b": false, "a:b": true, "1000:1000": true, "a:": false, ":b": false, "a:b:c": false, "ä": false, "a\n": false,
	} {
		if err := CheckUser("user", user); (err == nil) != ok || err != nil && CodeOf(err) != CodeInvalid {
			t.Errorf("%q: %v, want it allowed: %v", user, err, ok)
		}
	}
}

// TestCheckAccount: a group stands beside a user, and is no part of one's name.
func TestCheckAccount(t *testing.T) {
	for name, ok := range map[string]bool{"": true, "root": true, "1000": true, "a:b": false, "a b": false} {
		if err := CheckAccount("owner", name); (err == nil) != ok {
			t.Errorf("%q: %v, want it allowed: %v", name, err, ok)
		}
	}
}

func TestCheckIdempotencyKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"a": true, "!~": true, strings.Repeat("k", MaxIdempotencyKey): true,
		"": false, strings.Repeat("k", MaxIdempotencyKey+1): false, "a b": false, "ä": false, "a\n": false, "\x7f": false,
	} {
		if err := CheckIdempotencyKey(key); (err == nil) != ok || err != nil && CodeOf(err) != CodeInvalid {
			t.Errorf("%q: %v, want it allowed: %v", key, err, ok)
		}
	}
}
