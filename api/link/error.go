package link

import (
	"errors"
	"fmt"
)

// The ends of a link. Link.Err and the calls on its streams return one of them, possibly wrapped.
var (
	ErrClosed   = errors.New("the link was closed")                                   // by this side's Close
	ErrReplaced = errors.New("a newer link took over")                                // guest only: the host came back
	ErrStalled  = errors.New("the guest takes nothing from its port")                 // for longer than writeStall
	ErrNoAnswer = errors.New("the guest did not answer the handshake")                // before the deadline
	ErrTooLong  = fmt.Errorf("a message may have at most %d bytes", MaxMessage)       // by Send, or as the end of a stream whose peer broke the limit
	ErrTooMany  = fmt.Errorf("a link has at most %d streams at one time", MaxStreams) // by Open
)

// ErrSendClosed is returned by Send after CloseSend.
var ErrSendClosed = errors.New("the sending side of the stream was closed")

// ProtocolError ends a link whose peer sent what no honest peer sends.
type ProtocolError struct {
	What string // what was wrong, without anything that the peer wrote
}

// Error says what was wrong.
func (e *ProtocolError) Error() string { return "link protocol: " + e.What }

// violation is the short way to a ProtocolError.
func violation(format string, args ...any) error {
	return &ProtocolError{What: fmt.Sprintf(format, args...)}
}

// Refusal is why a guest doesn't take a SYNC.
type Refusal uint16

// The reasons.
const (
	RefusedVersion  Refusal = iota + 1 // the guest speaks another version of the protocol: its snapshot is older or newer
	RefusedIdentity                    // the guest is another execution or epoch: this host must not talk to it
	RefusedLink                        // the number isn't greater than the last one; Host goes on by itself
	RefusedSync                        // the guest could not set its clock, generator or name
)

// String is the reason in words.
func (r Refusal) String() string {
	switch r {
	case RefusedVersion:
		return "it speaks another protocol version"
	case RefusedIdentity:
		return "it is another execution or epoch"
	case RefusedLink:
		return "the link number is not new"
	case RefusedSync:
		return "it could not set clock, generator or name"
	}
	return fmt.Sprintf("reason %d", uint16(r))
}

// RefusedError is a guest's refusal of a SYNC, with what it claims its identity to be.
type RefusedError struct {
	Reason Refusal
	Epoch  uint64 // 0: it has none yet
	Link   uint64
}

// Error says why and what the guest has.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the guest refused the handshake: %s (it has epoch %d)", e.Reason, e.Epoch)
}

// Code says why a stream was reset.
type Code uint32

// The codes. A peer may send others.
const (
	CodeCancelled Code = iota + 1 // the caller gave up
	CodeRefused                   // too many streams, or a call that the guest doesn't know
	CodeReplaced                  // a newer stream took over what this one carried
	CodeInternal                  // the guest could not do it
	CodeProtocol                  // a message was too long or made no sense
)

// ResetError is the end of a stream that was reset.
type ResetError struct {
	Code   Code
	Remote bool // by the peer, not by this side
}

// Error names the side and the code.
func (e *ResetError) Error() string {
	if e.Remote {
		return fmt.Sprintf("the stream was reset by the other side, code %d", e.Code)
	}
	return fmt.Sprintf("the stream was reset, code %d", e.Code)
}
