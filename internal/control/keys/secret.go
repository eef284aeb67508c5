package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"regexp"

	"github.com/space-platform/space/internal/control/record"
)

// Format is what a key looks like.
type Format string

// The formats.
const (
	FormatSpace Format = "space" // space_, 8 characters that may be shown, _, and 256 random bits
	FormatE2B   Format = "e2b"   // e2b_ and 160 random bits in hexadecimal, which E2B's SDKs insist on; the first 32 may be shown
)

const (
	visibleBytes = 5  // 8 characters
	secretBytes  = 32 // 52 characters
	e2bBytes     = 20 // 40 digits
	e2bVisible   = len("e2b_") + 8
)

var (
	encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	keyRE    = regexp.MustCompile(`^(space_[a-z2-7]{8}_[a-z2-7]{52}|e2b_[0-9a-f]{40})$`)
)

// generate makes a key and its visible beginning.
func generate(f Format) (key, prefix string) {
	if f == FormatE2B {
		key = "e2b_" + hex.EncodeToString(random(e2bBytes))
		return key, key[:e2bVisible]
	}
	prefix = "space_" + encoding.EncodeToString(random(visibleBytes))
	return prefix + "_" + encoding.EncodeToString(random(secretBytes)), prefix
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func hash(key string) record.KeyHash { return sha256.Sum256([]byte(key)) }
