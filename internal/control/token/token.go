// Package token makes and knows the tokens that open something of the data plane: a prefix, which says what, and 256 bits. Only their hashes are
// stored.
package token

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/space-platform/space/internal/control/record"
)

// Kind is what a token opens: the letters before its bits.
type Kind string

// The kinds.
const (
	Sandbox    Kind = "spacesbx_"
	Attachment Kind = "spaceatt_"
	Upload     Kind = "spaceupl_"
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Random is a token that nobody can compute.
func (k Kind) Random() string {
	var b [sha256.Size]byte
	rand.Read(b[:])
	return string(k) + encoding.EncodeToString(b[:])
}

// Derive is the token for a purpose that whoever holds a key gets each time: a repeated request is answered with the same one although only its
// hash is stored. Nobody without the key can compute it. The purpose and the parts must not let two tokens mean the same text.
func (k Kind) Derive(key, purpose string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(strings.Join(append([]string{purpose}, parts...), "\x00")))
	return string(k) + encoding.EncodeToString(mac.Sum(nil))
}

// Is reports whether s has the form of such a token.
func (k Kind) Is(s string) bool {
	rest, ok := strings.CutPrefix(s, string(k))
	return ok && len(rest) == encoding.EncodedLen(sha256.Size) && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Hash is what is kept of a token.
func Hash(token string) record.TokenHash { return sha256.Sum256([]byte(token)) }
