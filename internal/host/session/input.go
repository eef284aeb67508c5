package session

import (
	"context"
	"sync"

	space "github.com/space-platform/space"
)

// The limits of an open stdin, in bytes.
const (
	guestWindow = 256 << 10 // that the guest takes beyond what the command has got; more breaks its protocol
	inputBuffer = 256 << 10 // that the node keeps because the guest hasn't got them; who brings more waits
)

// input is a session's stdin as the node sees it: what the guest isn't known to have, and how much it may be sent.
//
// Nothing of an open stdin is on file: whoever brings bytes is told how many the guest has, and brings the others again after this process's
// death. A guest says how many it has when the session is opened; until then nobody knows.
type input struct {
	mu      sync.Mutex
	known   bool   // the guest has said how far it is in this process's life
	base    uint64 // bytes that the guest has: the offset of buf
	buf     []byte
	taken   uint64        // by the command, of those that the guest has
	open    bool          // more may follow; else it ends with buf
	ended   bool          // the session has, and nobody reads any more
	sealed  bool          // that it isn't open is on file: the guest may hear of it
	windows bool          // the guest takes a window only, and doesn't know the length: it was open once
	changed chan struct{} // closed and replaced when one of them changes
}

// newInput returns the input of a session that was created with some bytes. sealed: it was open once, and its end is on file.
func newInput(initial []byte, open, sealed bool) *input {
	return &input{buf: initial, open: open && !sealed, sealed: sealed || !open, windows: open, changed: make(chan struct{})}
}

func (i *input) end() uint64 { return i.base + uint64(len(i.buf)) }

func (i *input) broadcast() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// opened takes what the guest has when the session is opened.
func (i *input) opened(received uint64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.known && i.windows && received > i.end() { // another life of this process brought the rest
		i.base, i.buf = received, nil
	}
	i.known = true
	return i.has(received)
}

// told takes what the guest says while the session runs.
func (i *input) told(received, taken uint64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if taken > received || taken < i.taken {
		return violation("the command has got %d bytes of stdin, of %d", taken, received)
	}
	i.taken = taken
	return i.has(received)
}

// has drops what the guest has. mu is held.
func (i *input) has(received uint64) error {
	if received < i.base || received > i.end() {
		return violation("it has %d bytes of stdin, of %d to %d", received, i.base, i.end())
	}
	i.buf = i.buf[received-i.base:]
	i.base = received
	if len(i.buf) == 0 {
		i.buf = nil
	}
	i.broadcast()
	return nil
}

// close says that the input ends where it is now, and returns its length.
func (i *input) close() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open = false
	i.broadcast()
	return i.end()
}

// seal says that the end is on file.
func (i *input) seal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sealed = true
	i.broadcast()
}

// wait gives up the lock until something has changed.
func (i *input) wait(ctx context.Context) error {
	changed := i.changed
	i.mu.Unlock()
	defer i.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add appends bytes of which the first belongs at an offset, and ignores those that are there already. It waits for room, and returns the
// offset after them.
func (i *input) add(ctx context.Context, offset uint64, data []byte) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	until := offset + uint64(len(data))
	for {
		switch end := i.end(); {
		case !i.known:
		case offset > end || until < offset:
			return 0, space.FieldErrorf("offset", "%d lies beyond the %d bytes that the session has received", offset, end)
		case until <= end:
			return until, nil
		case !i.open:
			return 0, i.closedError()
		case len(i.buf) < inputBuffer:
			i.buf = append(i.buf, data[end-offset:]...)
			i.broadcast()
			return until, nil
		}
		if err := i.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// append adds bytes at the end, wherever that is.
func (i *input) append(ctx context.Context, data []byte) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		switch {
		case !i.known:
		case len(data) == 0:
			return i.end(), nil
		case !i.open:
			return 0, i.closedError()
		case len(i.buf) < inputBuffer:
			i.buf = append(i.buf, data...)
			i.broadcast()
			return i.end(), nil
		}
		if err := i.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// received waits until the guest has all bytes before an offset, and returns how many it has.
func (i *input) received(ctx context.Context, offset uint64) (uint64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for !i.known || i.base < offset {
		if err := i.wait(ctx); err != nil {
			return i.base, err
		}
	}
	return i.base, nil
}

// next waits for what may be sent after an offset: at most stdinChunk bytes, or the news that none follow. What the guest has got since from the
// stream before this one is left out, so the bytes may begin later.
func (i *input) next(ctx context.Context, sent uint64) (offset uint64, data []byte, last bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		sent = max(sent, i.base)
		n := min(i.end()-sent, stdinChunk)
		if i.windows {
			n = min(n, i.limit()-min(sent, i.limit()))
		}
		at := sent - i.base
		last = i.sealed && sent+n == i.end()
		if n > 0 || last {
			return sent, i.buf[at : at+n : at+n], last, nil
		}
		if err := i.wait(ctx); err != nil {
			return 0, nil, false, err
		}
	}
}

// discard drops what nobody will read any more.
func (i *input) discard() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.base, i.buf, i.open, i.ended = i.end(), nil, false, true
	i.broadcast()
}

// closedError says why no more bytes are taken: the session's end, of which its bringer may not have heard yet, or a client's word. mu is held.
func (i *input) closedError() error {
	if i.ended {
		return errSessionEnded
	}
	return space.Errorf(space.CodeConflict, "the session's stdin was closed after %d bytes", i.end())
}

// limit is the offset up to which the guest takes bytes. mu is held.
func (i *input) limit() uint64 { return max(i.taken+guestWindow, i.base) }
