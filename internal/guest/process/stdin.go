package process

import (
	"errors"
	"fmt"
	"sync"
)

// Limits of stdin, in bytes.
const (
	MaxStdin    = 1 << 20   // that is announced at the start; all of it may wait here
	StdinWindow = 256 << 10 // of an open stdin that the command hasn't taken yet
)

// feedBytes is how much is written to the command at once: what it takes is told in steps of that.
const feedBytes = 32 << 10

// The ways in which stdin can be wrong.
var (
	ErrStdinGap  = errors.New("stdin: bytes are missing before this offset")
	ErrStdinLong = errors.New("stdin: more bytes than were announced, or after its end")
	ErrStdinFull = fmt.Errorf("stdin: more than %d bytes that the command hasn't taken", StdinWindow)
)

// StdinState is how far stdin is.
type StdinState struct {
	Received int64 // bytes that are here
	Taken    int64 // of them, bytes that the command has got
	Closed   bool  // nobody reads any more: what comes is taken and dropped
}

// stdin feeds a command what was received. What waits is bounded, so that a command that reads late holds up nothing else on its stream.
type stdin struct {
	mu      sync.Mutex
	state   StdinState
	open    bool  // its length isn't known yet
	total   int64 // unless it's open
	waiting []byte
	changed chan struct{} // closed and replaced whenever something above changes
}

func newStdin(total int64, open bool) *stdin {
	return &stdin{total: total, open: open, changed: make(chan struct{})}
}

// announce wakes all who wait; mu is held.
func (i *stdin) announce() {
	close(i.changed)
	i.changed = make(chan struct{})
}

// receive takes data that begins at offset and ignores what it has already. end says that nothing follows.
func (i *stdin) receive(offset int64, data []byte, end bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	until := offset + int64(len(data))
	switch {
	case offset < 0 || offset > i.state.Received:
		return ErrStdinGap
	case until < offset || !i.open && until > i.total || end && until < i.state.Received:
		return ErrStdinLong
	case i.open && !i.state.Closed && until-i.state.Taken > StdinWindow:
		return ErrStdinFull
	}
	if until > i.state.Received {
		i.keep(data[i.state.Received-offset:])
	}
	if end && i.open {
		i.open, i.total = false, until
	}
	i.announce()
	return nil
}

// keep takes new bytes; mu is held.
func (i *stdin) keep(data []byte) {
	i.state.Received += int64(len(data))
	if i.state.Closed {
		i.state.Taken = i.state.Received
		return
	}
	i.waiting = append(i.waiting, data...)
}

// now is the state, and what tells that it changes.
func (i *stdin) now() (StdinState, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state, i.changed
}

// next waits for bytes to write; none are the end, or that the command has ended.
func (i *stdin) next(ended <-chan struct{}) []byte {
	for {
		i.mu.Lock()
		data, over, changed := i.waiting, !i.open && i.state.Received == i.total, i.changed
		i.mu.Unlock()
		if len(data) > 0 || over {
			return data[:min(len(data), feedBytes)]
		}
		select {
		case <-changed:
		case <-ended:
			return nil
		}
	}
}

// took notes that the command has got the first n bytes that waited.
func (i *stdin) took(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.state.Taken += int64(n)
	if i.waiting = i.waiting[n:]; len(i.waiting) == 0 {
		i.waiting = nil
	}
	i.announce()
}

// close drops what waits and what is still to come.
func (i *stdin) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.state.Closed, i.state.Taken, i.waiting = true, i.state.Received, nil
	i.announce()
}

// feed writes what arrives to the command until its end, the command's, or until it doesn't read any more.
func (i *stdin) feed(w input, ended <-chan struct{}) {
	defer i.close()
	last := byte('\n')
	for {
		data := i.next(ended)
		if len(data) == 0 {
			i.close()
			w.finish(last, ended)
			return
		}
		if _, err := w.Write(data); err != nil {
			return
		}
		last = data[len(data)-1]
		i.took(len(data))
	}
}
