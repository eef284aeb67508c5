package process

import (
	"sync"
)

// Limits of one session's log.
const (
	KeptBytes  = 256 << 10 // output that isn't acknowledged; then the command waits
	ChunkBytes = 32<<10 - 128
	partCost   = 32 // what a change between stdout and stderr takes of KeptBytes, so that memory is bounded for any pattern
)

// firstBuffer is the size of a session's buffers before they grow: most sessions print little.
const firstBuffer = 4 << 10

// Source says which pipe bytes came from.
type Source int

// The sources.
const (
	Stdout Source = iota + 1
	Stderr
)

// log keeps the bytes [start, end) of a session's output in a ring, and where they came from.
type log struct {
	mu      sync.Mutex
	ring    []byte // offset o is at o % len(ring)
	start   uint64
	end     uint64
	parts   []part        // in order; the last one ends at end
	closed  bool          // nothing more is appended
	changed chan struct{} // closed and replaced whenever something above changes
}

// part is a run of bytes of one source.
type part struct {
	source Source
	end    uint64
}

func newLog() *log { return &log{changed: make(chan struct{})} }

// announce wakes all who wait; mu is held.
func (l *log) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// room is how much may be appended; mu is held.
func (l *log) room() int {
	return KeptBytes - int(l.end-l.start) - partCost*(len(l.parts)+1)
}

// append adds output and waits while there is no room. stop ends the wait, and the rest of the data is lost: the session was dropped.
func (l *log) append(stop <-chan struct{}, s Source, data []byte) bool {
	for len(data) > 0 {
		l.mu.Lock()
		n := max(0, min(len(data), l.room()))
		if n > 0 {
			l.put(s, data[:n])
			l.announce()
		}
		changed := l.changed
		l.mu.Unlock()
		if data = data[n:]; n > 0 {
			continue
		}
		select {
		case <-changed:
		case <-stop:
			return false
		}
	}
	return true
}

// put copies data into the ring, which has room for it after growing; mu is held.
func (l *log) put(s Source, data []byte) {
	l.grow(int(l.end-l.start) + len(data))
	at := int(l.end % uint64(len(l.ring)))
	n := copy(l.ring[at:], data)
	copy(l.ring, data[n:])
	l.end += uint64(len(data))
	if k := len(l.parts); k > 0 && l.parts[k-1].source == s {
		l.parts[k-1].end = l.end
	} else {
		l.parts = append(l.parts, part{s, l.end})
	}
}

// grow makes the ring at least n bytes long; mu is held.
func (l *log) grow(n int) {
	if n <= len(l.ring) {
		return
	}
	size := max(firstBuffer, len(l.ring))
	for size < n {
		size *= 2
	}
	ring := make([]byte, size)
	for o := l.start; o < l.end; {
		from := l.ring[o%uint64(len(l.ring)):]
		from = from[:min(uint64(len(from)), l.end-o)]
		from = from[:copy(ring[o%uint64(size):], from)]
		o += uint64(len(from))
	}
	l.ring = ring
}

// read copies what comes at offset into b: bytes of one source. Zero bytes with closed true are the end; with closed false there is
// nothing yet, and changed tells when to look again. at is offset, or where the log begins if that was dropped already.
func (l *log) read(offset uint64, b []byte) (at uint64, s Source, n int, closed bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	offset = max(offset, l.start)
	for _, p := range l.parts {
		if offset >= p.end {
			continue
		}
		b = b[:min(uint64(len(b)), p.end-offset)]
		n = copy(b, l.ring[offset%uint64(len(l.ring)):])
		n += copy(b[n:], l.ring)
		return offset, p.source, n, false, nil
	}
	return offset, 0, 0, l.closed, l.changed
}

// acknowledge forgets what lies before offset. It's false for an offset that wasn't written yet.
func (l *log) acknowledge(offset uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if offset > l.end {
		return false
	}
	if offset <= l.start {
		return true
	}
	l.start = offset
	gone := 0
	for gone < len(l.parts) && l.parts[gone].end <= offset {
		gone++
	}
	l.parts = append(l.parts[:0], l.parts[gone:]...)
	if l.closed && l.start == l.end {
		l.ring, l.parts = nil, nil
	}
	l.announce()
	return true
}

// close marks the end; record gets the length before anyone can see that.
func (l *log) close(record func(length uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	record(l.end)
	l.closed = true
	if l.start == l.end {
		l.ring, l.parts = nil, nil
	}
	l.announce()
}

// complete reports whether the log is closed and everything was acknowledged.
func (l *log) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && l.start == l.end
}
