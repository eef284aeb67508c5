package link

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	handshakeLimit = 2 * time.Minute        // for a context without a deadline
	syncFirst      = 20 * time.Millisecond  // from the first SYNC to the second; doubled each time
	syncSlowest    = 500 * time.Millisecond // at most
	maxRenumber    = 4                      // how often a guest may ask for a greater number
	writeStall     = 20 * time.Second       // how long a guest may take nothing from its port, once the link is up
	closeFlush     = time.Second            // how long Close waits until what was queued is written
	maxStale       = 1 << 20                // bytes of garbage and of older links after the ACK
)

// Link is the host's end of an established link. Its methods may be called from any goroutine.
type Link struct {
	conn    io.Closer
	frames  *frameReader
	w       *writer
	number  uint64
	rtt     time.Duration
	syncs   atomic.Int64
	cur     atomic.Pointer[mux] // nil until the first SYNC
	answers chan answer         // the first answer to the current number
	done    chan struct{}       // closed when err is set
	written chan struct{}       // closed when the writer has ended
	ends    sync.WaitGroup      // reader and writer

	once sync.Once
	err  error
}

// answer is what a guest said to a SYNC.
type answer struct {
	link    uint64
	ack     ack
	refused *RefusedError
}

// Host greets the guest at the other end of conn and returns when it has taken the time, the seed and the identity of s. conn is the link's
// from now on, also when Host fails. It tries until ctx ends, or for two minutes if that has no deadline.
// Errors wrap ErrNoAnswer, a *RefusedError, a *ProtocolError, or conn's own.
func Host(ctx context.Context, conn io.ReadWriteCloser, s Sync) (*Link, error) {
	if err := s.check(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, handshakeLimit)
		defer cancel()
	}
	l := &Link{
		conn: conn, frames: newFrameReader(conn), w: newWriter(conn),
		answers: make(chan answer, 1), done: make(chan struct{}), written: make(chan struct{}),
	}
	l.ends.Go(l.read)
	l.ends.Go(l.write)
	if err := l.handshake(ctx, s); err != nil {
		l.fail(err)
		l.ends.Wait()
		return nil, fmt.Errorf("greet the guest of execution %s: %w", s.Execution, err)
	}
	l.w.stall.Store(int64(writeStall))
	return l, l.SetClock(time.Now())
}

// Greet greets the guest again over the same connection, which spares it and the VMM a new one: as another execution, or after the machine stood
// still. What the link carried is over, as with a new link. The caller has the link for itself. An error, of which there are those of Host, ends it.
func (l *Link) Greet(ctx context.Context, s Sync) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("greet the guest again: %w", err)
	}
	l.cur.Load().fail(ErrReplaced)
	l.w.stall.Store(0) // the handshake has its own deadline
	if err := l.handshake(ctx, s); err != nil {
		l.fail(err)
		return fmt.Errorf("greet the guest of execution %s again: %w", s.Execution, err)
	}
	l.w.stall.Store(int64(writeStall))
	return l.SetClock(time.Now())
}

// handshake goes through link numbers until the guest takes one.
func (l *Link) handshake(ctx context.Context, s Sync) error {
	var err error
	for range maxRenumber {
		s.Link = max(s.Link, uint64(time.Now().UnixNano()))
		err = l.greet(ctx, s)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != RefusedLink || refused.Link == math.MaxUint64 {
			return err
		}
		s.Link = refused.Link + 1
	}
	return err
}

// greet sends one number's SYNC until it's answered.
func (l *Link) greet(ctx context.Context, s Sync) error {
	l.number = s.Link
	l.syncs.Store(0)
	l.w.restart(s.Link)
	l.cur.Store(newMux(s.Link, l.w, true))
	select {
	case <-l.answers: // to a number before
	default:
	}
	for try, wait := 0, syncFirst; ; try, wait = try+1, min(2*wait, syncSlowest) {
		s.Time = time.Now()
		rand.Read(s.Seed[:])
		l.syncs.Add(1)
		l.w.greet(frame{kind: kindSync, link: s.Link, payload: s.encode()}, needsFiller(s, try))
		a, err := l.await(ctx, s.Link, wait)
		if err == nil {
			l.rtt = time.Since(s.Time)
			return a.verdict(s)
		}
		if !errors.Is(err, errEmpty) {
			return err
		}
	}
}

// needsFiller says whether a try is preceded by the filler. A guest that was loaded from a snapshot is spared it at first: its port is clean as a
// rule, and reading 32 KiB with cold code costs more than waiting for the rare exception.
func needsFiller(s Sync, try int) bool {
	return !s.Adopt && try == 0 || try == 3 || try > 0 && try%16 == 0
}

// await waits for the answer to a number; errEmpty when it's time to ask again.
func (l *Link) await(ctx context.Context, number uint64, wait time.Duration) (answer, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case a := <-l.answers:
			if a.link == number {
				return a, nil
			}
		case <-timer.C:
			return answer{}, errEmpty
		case <-l.done:
			return answer{}, l.err
		case <-ctx.Done():
			return answer{}, fmt.Errorf("%w: %w", ErrNoAnswer, context.Cause(ctx))
		}
	}
}

// verdict is what an answer means for the handshake.
func (a answer) verdict(s Sync) error {
	switch {
	case a.refused != nil:
		return a.refused
	case a.ack.version != Version:
		return violation("an ACK of version %d", a.ack.version)
	case a.ack.epoch != s.Epoch:
		return violation("an ACK of another epoch")
	}
	return nil
}

// Open starts a call with its first message. The stream must be ended: by closing both directions, or with Reset.
// Errors: ErrTooMany, ErrTooLong, the link's end, or the cause of ctx's.
func (l *Link) Open(ctx context.Context, first []byte) (*Stream, error) {
	if len(first) > MaxMessage {
		return nil, ErrTooLong
	}
	s, err := l.cur.Load().open(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("open a stream to the guest: %w", l.reason(err))
	}
	return s, nil
}

// SetClock tells the guest the time. The handshake has done it; do it again after the machine was paused.
func (l *Link) SetClock(now time.Time) error {
	if err := l.w.post(frame{kind: kindClock, link: l.number, payload: encodeClock(now)}); err != nil {
		return l.reason(err)
	}
	return nil
}

// Number is the link's number.
func (l *Link) Number() uint64 { return l.number }

// RoundTrip is the time from the SYNC that was answered, or a later repetition of it, to the ACK.
func (l *Link) RoundTrip() time.Duration { return l.rtt }

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err is why the link has ended: ErrClosed, ErrStalled, a *ProtocolError, or the connection's error; nil while it's up.
func (l *Link) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// reason prefers the link's end to err.
func (l *Link) reason(err error) error {
	if end := l.Err(); end != nil {
		return end
	}
	return err
}

// Close ends the link: its streams fail with ErrClosed, what was queued is still written, for at most a second, so that the guest isn't left
// with half a frame, and the connection is closed. It may be called again.
func (l *Link) Close() error {
	l.end(ErrClosed)
	timer := time.NewTimer(closeFlush)
	defer timer.Stop()
	select {
	case <-l.written:
	case <-timer.C:
	}
	err := l.conn.Close()
	l.ends.Wait()
	return err
}

// end sets the reason, fails the streams and lets the writer finish.
func (l *Link) end(err error) {
	l.once.Do(func() {
		if m := l.cur.Load(); m != nil {
			m.fail(err)
		}
		l.w.stop()
		l.err = err
		close(l.done)
	})
}

// fail ends the link at once. It doesn't wait.
func (l *Link) fail(err error) {
	l.end(err)
	l.conn.Close()
}

// write is the writer's goroutine.
func (l *Link) write() {
	defer close(l.written)
	if err := l.w.run(func() { l.fail(ErrStalled) }); err != nil {
		l.fail(fmt.Errorf("write to the guest: %w", err))
	}
}
