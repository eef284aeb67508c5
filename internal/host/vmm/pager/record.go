package pager

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"
)

// recorder notes which pages a machine asks for at the beginning, and writes that down.
type recorder struct {
	write func(set []uint32) error
	limit time.Duration

	begun chan struct{} // closed by the first note

	mu  sync.Mutex
	set []uint32
	off bool // no more notes
}

func newRecorder(limit time.Duration, write func([]uint32) error) *recorder {
	return &recorder{write: write, limit: limit, begun: make(chan struct{})}
}

// recordTo is a recorder for the file of a recording, which it closes when it's done: that lets go of the lock.
func recordTo(f *os.File, snapshot string, memory int64) *recorder {
	return newRecorder(RecordTime, func(set []uint32) error {
		defer f.Close()
		return writeSet(f, set, snapshot, memory)
	})
}

// note notes a page.
func (r *recorder) note(page uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off || len(r.set) >= maxWorkingSet {
		return
	}
	if len(r.set) == 0 {
		close(r.begun)
	}
	r.set = append(r.set, page)
}

// run writes the notes down when their time is over. A machine that ends before that leaves none: it may not have got far.
func (r *recorder) run(ctx context.Context) {
	select {
	case <-r.begun:
	case <-ctx.Done():
		return
	}
	t := time.NewTimer(r.limit)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	r.off = true
	r.mu.Unlock()
	if err := r.write(r.set); err != nil {
		slog.Warn("the working set can't be written", "err", err)
	}
}
