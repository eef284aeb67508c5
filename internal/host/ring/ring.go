package ring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// DefaultLimit is how many bytes of a session's output are kept when nobody says otherwise: 16 MiB.
const DefaultLimit = 16 << 20

// segmentsPerRing is how finely the oldest output is dropped: a sixteenth of the limit at a time.
const segmentsPerRing = 16

// overhead bounds the files of a ring: at most so many times its limit, however small the records are.
const overhead = 2

// ErrFinished is returned by Append after Finish.
var ErrFinished = errors.New("the session's output has ended")

// Ring is the kept output of one session. One goroutine appends; any number read.
type Ring struct {
	dir   string
	limit uint64

	mu       sync.Mutex // guards what follows
	beyond   uint64     // bytes that the limit is put off by while readers need the oldest ones
	segments []segment  // oldest first, contiguous; none only before the first record
	next     uint64     // offset of the next byte
	tail     *os.File   // the last segment, open for appending; nil until needed
	readers  map[*Reader]struct{}
	finished bool
	changed  chan struct{} // closed and replaced when something that somebody waits for has changed
}

// Open opens the ring in dir, which must exist, and cuts off what a dying process left half written. limit is the number of bytes of
// output to keep, at least segmentsPerRing × MaxData to be useful.
func Open(dir string, limit int64) (*Ring, error) {
	segments, err := scan(dir)
	if err != nil {
		return nil, err
	}
	r := &Ring{dir: dir, limit: uint64(limit), segments: segments, readers: map[*Reader]struct{}{}, changed: make(chan struct{})}
	if n := len(segments); n > 0 {
		r.next = segments[n-1].end()
	}
	return r, nil
}

// End returns the offset of the next byte: the length of the log so far.
func (r *Ring) End() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

// Start returns the offset of the oldest byte that is kept.
func (r *Ring) Start() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start()
}

func (r *Ring) start() uint64 {
	if len(r.segments) == 0 {
		return r.next
	}
	return r.segments[0].start
}

// Append adds output. When it returns nil, the bytes survive the process. It waits while the ring is full and a reader hasn't got the
// oldest bytes; ctx ends that wait, and then only whole records before it were added: End tells.
func (r *Ring) Append(ctx context.Context, s Stream, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), MaxData, int(r.segmentLimit()))
		if err := r.appendOne(ctx, s, data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (r *Ring) appendOne(ctx context.Context, s Stream, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if r.finished {
			return ErrFinished
		}
		made, err := r.makeRoom(uint64(len(data)))
		if err != nil {
			return err
		}
		if made {
			return r.write(s, data)
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// makeRoom drops the oldest segments until n more bytes fit. It reports false when a reader still needs the oldest one. The last
// segment stays: its name is what tells the next life where the log ends.
func (r *Ring) makeRoom(n uint64) (bool, error) {
	for len(r.segments) > 1 && r.full(n, r.limit) {
		if r.neededBelow(r.segments[0].end()) {
			return !r.full(n, r.limit+r.beyond), nil
		}
		if err := removeSegments(r.dir, r.segments[:1]); err != nil {
			return false, err
		}
		r.segments = r.segments[1:]
	}
	return true, nil
}

// Extend has Append wait for no reader until the log is so many bytes beyond its limit. What nobody needs still goes at the limit.
func (r *Ring) Extend(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beyond = uint64(bytes)
	r.broadcast()
}

// full reports whether n more bytes are too many for a limit.
func (r *Ring) full(n, limit uint64) bool {
	var files int64
	for _, s := range r.segments {
		files += s.size
	}
	return r.next-r.start()+n > limit || uint64(files)+n+headerBytes > overhead*limit
}

// neededBelow reports whether an attached reader hasn't got all bytes below the offset.
func (r *Ring) neededBelow(offset uint64) bool {
	for rd := range r.readers {
		if rd.pos < offset {
			return true
		}
	}
	return false
}

func (r *Ring) segmentLimit() uint64 { return max(r.limit/segmentsPerRing, 1) }

// write appends one record to the last segment, or to a new one. A record that can't be written whole is taken back.
func (r *Ring) write(s Stream, data []byte) error {
	if err := r.openTail(uint64(len(data))); err != nil {
		return err
	}
	last := &r.segments[len(r.segments)-1]
	record := appendRecord(make([]byte, 0, headerBytes+len(data)), s, data)
	if _, err := r.tail.WriteAt(record, last.size); err != nil {
		r.tail.Truncate(last.size) // else the next Open does it
		return fmt.Errorf("keep output: %w", err)
	}
	last.size += int64(len(record))
	last.data += uint64(len(data))
	r.next += uint64(len(data))
	r.broadcast()
	return nil
}

// openTail makes sure that the last segment is open and has room for n more bytes.
func (r *Ring) openTail(n uint64) error {
	last := len(r.segments) - 1
	if last < 0 || r.segments[last].data+n > r.segmentLimit() || uint64(r.segments[last].size)+n+headerBytes > overhead*r.segmentLimit() {
		r.closeTail()
		r.segments = append(r.segments, segment{start: r.next})
		last++
	}
	if r.tail != nil {
		return nil
	}
	f, err := os.OpenFile(r.segments[last].path(r.dir), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		if r.segments[last].size == 0 {
			r.segments = r.segments[:last]
		}
		return fmt.Errorf("keep output: %w", err)
	}
	r.tail = f
	return nil
}

func (r *Ring) closeTail() {
	if r.tail != nil {
		r.tail.Close()
		r.tail = nil
	}
}

// Finish says that nothing more will be appended: readers that have got everything are told io.EOF. Repeating it changes nothing.
func (r *Ring) Finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	r.closeTail()
	r.broadcast()
}

// Shed drops all kept output of a finished ring; later readers are told a gap. What remains is an empty segment whose name tells the
// log's length.
func (r *Ring) Shed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == r.start() {
		return nil
	}
	end := segment{start: r.next}
	f, err := os.OpenFile(end.path(r.dir), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("drop a session's output: %w", err)
	}
	f.Close()
	dropped := r.segments
	r.segments = []segment{end}
	r.broadcast()
	return removeSegments(r.dir, dropped)
}

// Close releases the ring's files. What is kept stays on disk.
func (r *Ring) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeTail()
}

// wait gives up the lock until something has changed.
func (r *Ring) wait(ctx context.Context) error {
	changed := r.changed
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *Ring) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}
