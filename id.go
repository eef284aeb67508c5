package space

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"strings"
)

// Prefix is the kind of an id: the letters before the underscore.
type Prefix string

// The kinds of id. In a host name the prefix and the underscore are dropped.
const (
	PrefixSandbox   Prefix = "sbx"
	PrefixExecution Prefix = "exe"
	PrefixSession   Prefix = "ses"
	PrefixOperation Prefix = "op"
	PrefixTemplate  Prefix = "tpl"
	PrefixSnapshot  Prefix = "snp"
	PrefixOrg       Prefix = "org"
	PrefixProject   Prefix = "prj"
	PrefixKey       Prefix = "key"
	PrefixUser      Prefix = "usr"
	PrefixRequest   Prefix = "req"
	PrefixUpload    Prefix = "upl"
	PrefixToken     Prefix = "tok" // of a sandbox; the secret itself has another form
)

// idBytes is the entropy of an id: 128 bits. Ids aren't secrets and nothing trusts them; the size only rules out collisions.
const idBytes = 16

// idChars is the length of the part after the prefix: 16 bytes in base32 without padding.
const idChars = 26

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewID returns a fresh random id of the given kind.
func NewID(p Prefix) string {
	var b [idBytes]byte
	rand.Read(b[:])
	return string(p) + "_" + idEncoding.EncodeToString(b[:])
}

// CheckID reports whether s is a well-formed id of the given kind. The error names what is wrong, never another id.
func CheckID(p Prefix, s string) error {
	rest, ok := strings.CutPrefix(s, string(p)+"_")
	if !ok {
		return fmt.Errorf("%q is not a %s id: it must start with %s_", Clip(s), p, p)
	}
	if len(rest) != idChars {
		return fmt.Errorf("%q is not a %s id: %d characters after the prefix, want %d", Clip(s), p, len(rest), idChars)
	}
	for _, r := range rest {
		if (r < 'a' || r > 'z') && (r < '2' || r > '7') {
			return fmt.Errorf("%q is not a %s id: only a-z and 2-7 after the prefix", Clip(s), p)
		}
	}
	return nil
}

// HostLabel returns the id without its prefix, as it appears in host names, namespaces and cgroups.
func HostLabel(id string) string {
	_, rest, ok := strings.Cut(id, "_")
	if !ok {
		return id
	}
	return rest
}

// clipChars bounds how much of a caller's text an error repeats.
const clipChars = 64

// Clip shortens a caller's text so that an error can repeat it.
func Clip(s string) string {
	if len(s) <= clipChars {
		return s
	}
	return strings.ToValidUTF8(s[:clipChars], "") + "…"
}
