package session

import (
	"context"
	"errors"
	"io"
	"time"

	space "github.com/space-platform/space"
)

// stdinTimeout is how long the bringer of stdin waits while the command takes nothing of it: a minute. It may come back then.
const stdinTimeout = time.Minute

// Input is stdin that a client brings for a session whose stdin is open.
type Input struct {
	Session string
	Offset  uint64 // where it begins in the session's whole stdin, what it was created with included
	Append  bool   // it goes to the end instead, wherever that is
	Close   bool   // nothing follows it
}

// Stdin brings what next returns, until io.EOF, and returns how many bytes of stdin the guest has: all of these, unless the session ended
// meanwhile. Of what was brought before an error an unknown part was received; a client asks by bringing nothing, or brings it again.
func (s *Set) Stdin(ctx context.Context, in Input, next func() ([]byte, error)) (received uint64, err error) {
	ses, err := s.get(in.Session)
	if err != nil {
		return 0, err
	}
	if err := ses.checkLive(); err != nil {
		return 0, err
	}
	ctx, cancel := ses.whileLive(ctx)
	defer cancel()
	b := bringer{input: ses.input, ses: ses, at: in.Offset, tail: in.Append}
	received, err = b.bring(ctx, next, in.Close)
	ended := errors.Is(err, errSessionEnded) || context.Cause(ctx) == errSessionEnded
	if ended && b.brought { // nobody will read it any more
		return b.at, nil
	}
	return received, err
}

// bringer is one call of Stdin.
type bringer struct {
	ses     *Session
	input   *input
	at      uint64 // where the next bytes go
	tail    bool   // they go to the end
	brought bool   // something was added
}

func (b *bringer) bring(ctx context.Context, next func() ([]byte, error), end bool) (uint64, error) {
	for {
		data, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		if err := b.add(ctx, data); err != nil {
			return 0, err
		}
	}
	if err := b.add(ctx, nil); err != nil { // no bytes are checked, too
		return 0, err
	}
	received, err := b.settled(ctx, b.at)
	if err != nil || !end {
		return received, err
	}
	return b.close(ctx)
}

// add brings some bytes as soon as there's room.
func (b *bringer) add(ctx context.Context, data []byte) (err error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	at := b.at
	if b.tail {
		at, err = b.input.append(ctx, data)
	} else {
		at, err = b.input.add(ctx, at, data)
	}
	if err == nil {
		b.at, b.brought = at, b.brought || len(data) > 0
	}
	return err
}

// settled waits until the guest has all bytes before an offset.
func (b *bringer) settled(ctx context.Context, offset uint64) (uint64, error) {
	ctx, cancel := patient(ctx)
	defer cancel()
	return b.input.received(ctx, offset)
}

// close ends the input. The guest hears of it only when that's on file and all bytes are there: after a crash they must agree.
func (b *bringer) close(ctx context.Context) (uint64, error) {
	end := b.input.close()
	received, err := b.settled(ctx, end)
	if err != nil {
		return 0, err
	}
	if err := b.ses.setInputEnd(end); err != nil {
		return 0, err
	}
	b.input.seal()
	return received, nil
}

func patient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, stdinTimeout, errNobodyReads)
}

var errNobodyReads = space.Errorf(space.CodeTimeout, "the session has taken no stdin for %s; try again", stdinTimeout)
