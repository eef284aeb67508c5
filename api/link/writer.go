package link

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxPending is how many bytes wait for the port before Send waits. Frames that answer what was received (credit, resets) don't wait;
// they are bounded by it.
const maxPending = 128 << 10

// maxBatch bounds one write, so that what a replaced link still has under way is small.
const maxBatch = 64 << 10

// writer gathers frames and writes them from one goroutine, so that nobody who reads ever waits for a write, and small frames share
// a write.
type writer struct {
	w     io.Writer
	stall atomic.Int64  // how long one write may take, in nanoseconds, before stalled is called; 0: for ever
	wake  chan struct{} // something is pending or the writer was stopped

	mu      sync.Mutex
	link    uint64        // frames of other links are refused
	pending []byte        // whole frames
	room    chan struct{} // closed and replaced when pending was taken
	stopped bool          // no more frames; run ends when pending is written
}

func newWriter(w io.Writer) *writer {
	return &writer{w: w, wake: make(chan struct{}, 1), room: make(chan struct{})}
}

// restart makes link the current one and forgets frames of the one before that aren't under way yet.
func (w *writer) restart(link uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.link = link
	w.pending = w.pending[:0]
	w.freed()
}

// post queues a frame without waiting.
func (w *writer) post(f frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.append(f)
}

// answer queues a frame of the handshake, of whatever link.
func (w *writer) answer(f frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.pending = appendFrame(w.pending, f)
		w.awake()
	}
}

// greet queues a SYNC, after a filler if asked, unless an earlier one still waits for the port.
func (w *writer) greet(f frame, filler bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || len(w.pending) > 0 {
		return
	}
	if filler {
		w.pending = append(w.pending, make([]byte, MaxFrame)...)
	}
	w.pending = appendFrame(w.pending, f)
	w.awake()
}

// send queues a frame when there is room. done ends the wait too.
func (w *writer) send(ctx context.Context, done <-chan struct{}, f frame) error {
	for {
		w.mu.Lock()
		if len(w.pending) < maxPending || w.stopped || f.link != w.link {
			err := w.append(f)
			w.mu.Unlock()
			return err
		}
		room := w.room
		w.mu.Unlock()
		select {
		case <-room:
		case <-done:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// append queues f; mu is held.
func (w *writer) append(f frame) error {
	if w.stopped {
		return ErrClosed
	}
	if f.link != w.link {
		return ErrReplaced
	}
	w.pending = appendFrame(w.pending, f)
	w.awake()
	return nil
}

func (w *writer) awake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// freed tells all who wait for room to look again; mu is held.
func (w *writer) freed() {
	close(w.room)
	w.room = make(chan struct{})
}

// stop refuses further frames and lets run end when what is pending was written.
func (w *writer) stop() {
	w.mu.Lock()
	w.stopped = true
	w.freed()
	w.mu.Unlock()
	w.awake()
}

// run writes until it is stopped or a write fails. stalled is called, from another goroutine, when a write takes too long; it must
// make that write return.
func (w *writer) run(stalled func()) error {
	timer := time.AfterFunc(time.Hour, stalled)
	timer.Stop()
	defer timer.Stop()
	var batch []byte
	for range w.wake {
		for {
			var end bool
			if batch, end = w.take(batch); len(batch) == 0 {
				if end {
					return nil
				}
				break
			}
			if err := w.write(timer, batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// take swaps the pending frames for the spare buffer.
func (w *writer) take(spare []byte) (batch []byte, stopped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) == 0 {
		return spare[:0], w.stopped
	}
	batch, w.pending = w.pending, spare[:0]
	w.freed()
	return batch, w.stopped
}

// write writes a batch in parts of at most maxBatch bytes.
func (w *writer) write(timer *time.Timer, batch []byte) error {
	for len(batch) > 0 {
		n := min(len(batch), maxBatch)
		if stall := w.stall.Load(); stall > 0 {
			timer.Reset(time.Duration(stall))
		}
		_, err := w.w.Write(batch[:n])
		timer.Stop()
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}
