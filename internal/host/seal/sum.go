package seal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// Sum is a digest that is being made. It covers each block that isn't zero, with its number, so that it doesn't depend on where the holes are.
type Sum struct {
	hash hash.Hash
	data int64
}

// NewSum begins one.
func NewSum() *Sum { return &Sum{hash: sha256.New()} }

// Add takes in what lies in a file from an offset on: whole blocks, but for the file's end. What is added lies behind what was added before.
func (s *Sum) Add(at int64, b []byte) {
	for len(b) > 0 {
		n := min(len(b), blockBytes)
		if !bytes.Equal(b[:n], zeroBlock[:n]) {
			s.block(at, b[:n])
		}
		at, b = at+int64(n), b[n:]
	}
}

// block takes in one that isn't zero.
func (s *Sum) block(at int64, b []byte) {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], uint64(at/blockBytes))
	s.hash.Write(number[:])
	s.hash.Write(b)
	s.data += int64(len(b))
}

// Info is what the manifest says of a file of a size that holds what was added.
func (s *Sum) Info(size int64) Info {
	return Info{Bytes: size, Data: s.data, SHA256: hex.EncodeToString(s.hash.Sum(nil))}
}
