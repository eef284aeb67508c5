package link

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Version is the protocol's version. A guest refuses any other.
const Version = 1

// SeedBytes is how much fresh randomness a SYNC carries.
const SeedBytes = 64

// Limits of the texts in a SYNC, in bytes.
const (
	MaxExecution = 47
	MaxHostname  = 63
)

// Sync is the host's greeting: who the guest is from now on, what time it is, and randomness that no other clone has.
type Sync struct {
	Execution string // at most MaxExecution bytes
	Epoch     uint64 // of the execution, at least 1
	Adopt     bool   // the guest takes this identity, whatever it had: set after a boot, a load or a fork, not when re-attaching
	Hostname  string // at most MaxHostname bytes; empty: the guest keeps its name

	// Host sets these itself, at each try.
	Link uint64    // the link's number; Host takes the wall clock, or this if it's greater
	Time time.Time // the host's wall clock
	Seed [SeedBytes]byte
}

const (
	syncLen   = 196
	ackLen    = 10
	refuseLen = 18
	clockLen  = 8
)

const syncAdopt = 1

// check refuses a Sync that can't be encoded.
func (s Sync) check() error {
	switch {
	case s.Execution == "" || len(s.Execution) > MaxExecution:
		return fmt.Errorf("execution id of %d bytes: want 1 to %d", len(s.Execution), MaxExecution)
	case len(s.Hostname) > MaxHostname:
		return fmt.Errorf("host name of %d bytes: at most %d", len(s.Hostname), MaxHostname)
	case s.Epoch == 0:
		return fmt.Errorf("epoch 0 of execution %s: epochs start at 1", s.Execution)
	}
	return nil
}

// encode returns the payload of a SYNC frame.
func (s Sync) encode() []byte {
	b := make([]byte, syncLen)
	binary.LittleEndian.PutUint16(b, Version)
	if s.Adopt {
		b[2] = syncAdopt
	}
	binary.LittleEndian.PutUint64(b[4:], s.Epoch)
	binary.LittleEndian.PutUint64(b[12:], uint64(s.Time.UnixNano()))
	copy(b[20:84], s.Seed[:])
	putText(b[84:132], s.Execution)
	putText(b[132:196], s.Hostname)
	return b
}

// decodeSync reads the payload of a SYNC frame of the given link. The version is returned first and is right even if the rest can't be
// read, because another version may have another layout.
func decodeSync(link uint64, b []byte) (version uint16, s Sync, ok bool) {
	if len(b) < 2 {
		return 0, s, false
	}
	version = binary.LittleEndian.Uint16(b)
	if version != Version || len(b) != syncLen {
		return version, s, false
	}
	s.Link = link
	s.Adopt = b[2]&syncAdopt != 0
	s.Epoch = binary.LittleEndian.Uint64(b[4:])
	s.Time = time.Unix(0, int64(binary.LittleEndian.Uint64(b[12:])))
	copy(s.Seed[:], b[20:84])
	var ok1, ok2 bool
	s.Execution, ok1 = text(b[84:132])
	s.Hostname, ok2 = text(b[132:196])
	return version, s, ok1 && ok2 && s.check() == nil
}

// putText writes a length byte and the text.
func putText(b []byte, s string) {
	b[0] = byte(len(s))
	copy(b[1:], s)
}

// text reads what putText wrote.
func text(b []byte) (string, bool) {
	n := int(b[0])
	if n > len(b)-1 {
		return "", false
	}
	return string(b[1 : 1+n]), true
}

// ack is a guest's answer to a SYNC that it took.
type ack struct {
	version uint16
	epoch   uint64
}

func (a ack) encode() []byte {
	b := binary.LittleEndian.AppendUint16(make([]byte, 0, ackLen), a.version)
	return binary.LittleEndian.AppendUint64(b, a.epoch)
}

func decodeAck(b []byte) (ack, bool) {
	if len(b) != ackLen {
		return ack{}, false
	}
	return ack{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint64(b[2:])}, true
}

func (r RefusedError) encode() []byte {
	b := binary.LittleEndian.AppendUint16(make([]byte, 0, refuseLen), uint16(r.Reason))
	b = binary.LittleEndian.AppendUint64(b, r.Epoch)
	return binary.LittleEndian.AppendUint64(b, r.Link)
}

func decodeRefuse(b []byte) (*RefusedError, bool) {
	if len(b) != refuseLen {
		return nil, false
	}
	return &RefusedError{
		Reason: Refusal(binary.LittleEndian.Uint16(b)),
		Epoch:  binary.LittleEndian.Uint64(b[2:]),
		Link:   binary.LittleEndian.Uint64(b[10:]),
	}, true
}

func encodeClock(t time.Time) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, clockLen), uint64(t.UnixNano()))
}

func decodeClock(b []byte) (time.Time, bool) {
	if len(b) != clockLen {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.LittleEndian.Uint64(b))), true
}
