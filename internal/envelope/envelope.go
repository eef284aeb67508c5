// Package envelope encrypts small values before they are kept: environments, standard input, signing keys. Who has the database, or a
// dump of it, has none of them; who has the key as well has all. Each value is bound to a context, the name of the one place where
// it's kept, so that a value that was moved to another place doesn't open there.
//
// A sealed value is a version byte, a random salt, and AES-256-GCM under a key derived from the master key, salt and context by
// HKDF-SHA-256. Each value has a key of its own, so the number of values isn't limited by the length of a nonce.
package envelope

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

const (
	// KeyBytes is the length of a master key.
	KeyBytes = 32
	// Overhead is how much longer a sealed value is than its content, in bytes.
	Overhead = 1 + saltBytes + 16

	version   = 1
	saltBytes = 24
)

// ErrSealed is the error of a value that doesn't open: it was sealed with another key, for another context, or has been changed.
var ErrSealed = errors.New("the value can't be opened with this key in this place")

// Key is a master key. It is safe for concurrent use.
type Key struct {
	secret [KeyBytes]byte
}

// New returns the master key of that secret.
func New(secret [KeyBytes]byte) *Key { return &Key{secret: secret} }

// Random returns a master key that nobody knows; what it seals can't be opened after the process has ended.
func Random() *Key {
	var k Key
	rand.Read(k.secret[:])
	return &k
}

// String keeps the secret out of whatever prints a Key.
func (k *Key) String() string { return "envelope.Key" }

// GoString does the same for %#v.
func (k *Key) GoString() string { return k.String() }

// Seal encrypts a value for a context. Sealing the same twice gives two different results.
func (k *Key) Seal(value []byte, context string) ([]byte, error) {
	out := make([]byte, 1+saltBytes, len(value)+Overhead)
	out[0] = version
	rand.Read(out[1:])
	aead, err := k.aead(out[1:], context)
	if err != nil {
		return nil, err
	}
	return aead.Seal(out, make([]byte, aead.NonceSize()), value, nil), nil
}

// Open decrypts what Seal made for the same context, or returns ErrSealed.
func (k *Key) Open(sealed []byte, context string) ([]byte, error) {
	if len(sealed) < Overhead || sealed[0] != version {
		return nil, ErrSealed
	}
	aead, err := k.aead(sealed[1:1+saltBytes], context)
	if err != nil {
		return nil, err
	}
	out, err := aead.Open(nil, make([]byte, aead.NonceSize()), sealed[1+saltBytes:], nil)
	if err != nil {
		return nil, ErrSealed
	}
	return out, nil
}

// aead is the cipher of one value. Its key is used once, so the nonce may be constant.
func (k *Key) aead(salt []byte, context string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, k.secret[:], salt, "space envelope v1\x00"+context, KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of a value: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of a value: %w", err)
	}
	return cipher.NewGCM(block)
}
