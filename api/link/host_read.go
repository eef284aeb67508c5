package link

import (
	"fmt"
	"math"
)

// intake is the state of the host's reader: what the guest has sent that no stream has paid for.
type intake struct {
	l     *Link
	up    bool  // the current number was acknowledged
	from  int64 // garbage before that
	stale int64 // bytes of other links since
	acks  int64 // answers to the current number
	link  uint64
}

// read is the reader's goroutine.
func (l *Link) read() {
	in := intake{l: l}
	for {
		f, err := l.frames.next()
		if err != nil {
			l.fail(fmt.Errorf("read from the guest: %w", err))
			return
		}
		if err := in.take(f); err != nil {
			l.fail(err)
			return
		}
	}
}

// take dispatches a frame. An error ends the link.
func (in *intake) take(f frame) error {
	m := in.l.cur.Load()
	if m == nil || f.link != m.link {
		in.stale += int64(cost(len(f.payload)))
		return in.check()
	}
	if m.link != in.link {
		in.link, in.acks, in.up = m.link, 0, false
		in.l.frames.most = math.MaxInt64
	}
	if f.stream == 0 && (f.kind == kindAck || f.kind == kindRefuse) {
		return in.answer(f)
	}
	if !in.up {
		return violation("a frame of kind %d before the ACK", f.kind)
	}
	if err := m.handle(f); err != nil {
		return err
	}
	return in.check()
}

// answer takes an ACK or REFUSE of the current number: as many as SYNCs were sent.
func (in *intake) answer(f frame) error {
	if in.acks++; in.acks > in.l.syncs.Load() {
		return violation("more answers than questions")
	}
	a := answer{link: f.link}
	var ok bool
	if f.kind == kindAck {
		a.ack, ok = decodeAck(f.payload)
	} else {
		a.refused, ok = decodeRefuse(f.payload)
	}
	if !ok {
		return violation("a malformed answer to the handshake")
	}
	if !in.up && f.kind == kindAck {
		in.up, in.from, in.stale = true, in.l.frames.garbage, 0
		in.l.frames.most = in.from + maxStale // which may come without a frame, too
	}
	select {
	case in.l.answers <- a:
	default: // a repetition
	}
	return nil
}

// check ends a link whose guest sends what nobody reads. During the handshake that is what the link before left behind, and the
// handshake's deadline bounds it.
func (in *intake) check() error {
	if in.up && in.stale+in.l.frames.garbage-in.from > maxStale {
		return violation("more than %d bytes of garbage", maxStale)
	}
	return nil
}
