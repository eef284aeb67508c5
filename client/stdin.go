package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

const (
	stdinWindow = 8 << 20               // bytes that were read and aren't known to have arrived: they're kept, since they may have to be sent again
	stdinPiece  = 64 << 10              // bytes of one read
	stdinLinger = 20 * time.Millisecond // for more to be read, before a request is ended to learn what has arrived
)

// SendStdin sends all of r to a session that was created with open_stdin or tty, from where its standard input is (offset: what it was
// created with, or an earlier call sent), and closes it at the end of r if that is asked for. It returns the new offset. What is read is
// sent at once, many reads in one request while they come quickly. What broke off is sent again from what the session has, so no byte is
// lost or doubled. A sandbox that sleeps when it begins is woken, and it ends with a timeout if that doesn't come to run. A command that doesn't read is waited for, and so is a sandbox
// that is paused or suspended meanwhile, which isn't woken; at most 8 MiB are kept. It returns after r's last Read,
// and doesn't interrupt one.
func (p *Plane) SendStdin(ctx context.Context, session string, offset int64, r io.Reader, closeAtEnd bool) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	buffer := &stdinBuffer{base: offset, changed: make(chan struct{})}
	s := &stdinSender{plane: p, session: session, buffer: buffer, closeAtEnd: closeAtEnd}
	sent := make(chan error, 1)
	go func() {
		defer cancel() // nothing more need be read
		sent <- s.send(ctx)
	}()
	readErr := buffer.fill(ctx, r)
	err := <-sent
	switch {
	case err != nil:
		err = fmt.Errorf("send to session %s: %w", session, err)
	case readErr != nil:
		err = fmt.Errorf("read what to send to session %s: %w", session, readErr)
	}
	return buffer.base, err
}

// StdinReceived returns how much of its whole standard input a session has: the offset from which SendStdin goes on after somebody else.
func (p *Plane) StdinReceived(ctx context.Context, session string) (int64, error) {
	got, err := p.stdin(ctx, stdinRequest{session: session})
	if err != nil {
		return 0, fmt.Errorf("ask for the input of session %s: %w", session, err)
	}
	return got, nil
}

// stdinBuffer is what was read and isn't known to have arrived.
type stdinBuffer struct {
	mu      sync.Mutex
	base    int64 // offset of buf in the session's whole standard input
	buf     []byte
	ended   bool          // nothing more is read
	failed  bool          // since that failed
	changed chan struct{} // closed and replaced when one of them changes
}

func (b *stdinBuffer) announce() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// fill reads r into the buffer until its end, which isn't an error, or ctx's.
func (b *stdinBuffer) fill(ctx context.Context, r io.Reader) error {
	piece := make([]byte, stdinPiece)
	for {
		n, err := r.Read(piece)
		if !b.add(ctx, piece[:n]) {
			return nil
		}
		if err != nil {
			failed := !errors.Is(err, io.EOF)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended, b.failed = true, failed
			b.announce()
			if failed {
				return err
			}
			return nil
		}
	}
}

// add waits for room. It reports whether somebody still sends.
func (b *stdinBuffer) add(ctx context.Context, data []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf)+len(data) > stdinWindow {
		if b.wait(ctx, nil) != nil {
			return false
		}
	}
	b.buf = append(b.buf, data...)
	b.announce()
	return ctx.Err() == nil
}

// errLingered ends a wait that was limited.
var errLingered = errors.New("nothing has changed")

// wait gives up the lock until something has changed, or the time comes.
func (b *stdinBuffer) wait(ctx context.Context, until <-chan time.Time) error {
	changed := b.changed
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-until:
		return errLingered
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ready waits until there is something to send, or nothing more will be.
func (b *stdinBuffer) ready(ctx context.Context) (offset int64, some, ended bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) == 0 && !b.ended {
		if err := b.wait(ctx, nil); err != nil {
			return 0, false, false, err
		}
	}
	return b.base, len(b.buf) > 0, b.ended && !b.failed, nil
}

// received drops what has arrived.
func (b *stdinBuffer) received(offset int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if offset < b.base || offset > b.base+int64(len(b.buf)) {
		return &Error{Code: "conflict", Detail: fmt.Sprintf("the session has %d bytes of input, %d to %d were sent: somebody else sends, too", offset, b.base, b.base+int64(len(b.buf)))}
	}
	rest := copy(b.buf, b.buf[offset-b.base:])
	b.base, b.buf = offset, b.buf[:rest]
	b.announce()
	return nil
}

// stdinBody is the body of one request: what is in the buffer, and what comes in while it's read, with a pause of at most stdinLinger.
type stdinBody struct {
	ctx    context.Context
	buffer *stdinBuffer
	at     int64
}

func (l *stdinBody) Read(p []byte) (int, error) {
	b := l.buffer
	b.mu.Lock()
	defer b.mu.Unlock()
	linger := time.NewTimer(stdinLinger)
	defer linger.Stop()
	for {
		there := l.at - b.base
		switch {
		case there < 0:
			return 0, io.EOF // a request that was given up is still being read, and what it had was sent by another
		case there < int64(len(b.buf)):
			n := copy(p, b.buf[there:])
			l.at += int64(n)
			return n, nil
		case b.ended || there >= stdinWindow:
			return 0, io.EOF
		}
		switch err := b.wait(l.ctx, linger.C); {
		case errors.Is(err, errLingered):
			return 0, io.EOF
		case err != nil:
			return 0, err
		}
	}
}

// stdinSender sends a buffer to a session.
type stdinSender struct {
	plane      *Plane
	session    string
	buffer     *stdinBuffer
	closeAtEnd bool
	broken     bool // a request has failed: how much arrived isn't known
	begun      bool // a request was answered otherwise than that the sandbox doesn't run yet: those that follow are nobody's wish, and wake nothing
}

func (s *stdinSender) send(ctx context.Context) error {
	return persist(ctx, s.connect, s.plane.pass.renewal())
}

// connect makes requests until one fails, or all is done.
func (s *stdinSender) connect(ctx context.Context) (progress bool, err error) {
	before := s.buffer.base
	if s.broken {
		err = s.ask(ctx)
	}
	for err == nil {
		err = s.request(ctx)
	}
	s.broken = true
	return s.buffer.base > before || s.begun && isTimeout(err), err // the command doesn't read, or the sandbox sleeps
}

// isTimeout tells whether an error says no more than that something was waited for.
func isTimeout(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == "timeout"
}

// ask asks how much has arrived.
func (s *stdinSender) ask(ctx context.Context) error {
	if err := s.post(ctx, s.buffer.base, nil, false); err != nil {
		return err
	}
	s.broken = false
	return nil
}

func (s *stdinSender) request(ctx context.Context) error {
	offset, some, ended, err := s.buffer.ready(ctx)
	switch {
	case err != nil:
		return err
	case some:
		return s.post(ctx, offset, &stdinBody{ctx: ctx, buffer: s.buffer, at: offset}, false)
	case ended && s.closeAtEnd:
		if err := s.post(ctx, offset, nil, true); err != nil {
			return err
		}
	}
	return errStop
}

// post sends a body and notes how much the session has then.
func (s *stdinSender) post(ctx context.Context, offset int64, body io.Reader, last bool) error {
	m := stdinRequest{session: s.session, offset: offset, body: body, last: last, sleep: s.begun}
	received, err := s.plane.stdin(ctx, m)
	s.begun = s.begun || !isTimeout(err)
	if err != nil {
		return err
	}
	return s.buffer.received(received)
}

// stdinRequest is what follows an offset.
type stdinRequest struct {
	session string
	offset  int64
	body    io.Reader // nil: nothing, to learn how much there is
	last    bool      // nothing follows it
	sleep   bool      // of a sandbox that does isn't ended by it
}

// stdin sends some, and returns how much the session has then.
func (p *Plane) stdin(ctx context.Context, m stdinRequest) (received int64, err error) {
	query := url.Values{"offset": {strconv.FormatInt(m.offset, 10)}}
	if m.last {
		query.Set("close", "true")
	}
	if m.sleep {
		query["wake"] = letSleep["wake"]
	}
	got, err := decode[gen.StdinReceived](p.do(ctx, call{method: http.MethodPost, path: "/sessions/" + url.PathEscape(m.session) + "/stdin", query: query,
		header: http.Header{"Content-Type": {"application/octet-stream"}}, body: m.body}))
	return got.Received, err
}
