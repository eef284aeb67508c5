package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// ErrBeyond is returned for a reader that claims to have more than the log holds.
var ErrBeyond = errors.New("the offset lies beyond the end of the session's output")

// Piece is what a reader is handed: output, or a gap in it.
type Piece struct {
	Offset uint64 // of the first byte, also of a gap
	Stream Stream // 0 for a gap
	Data   []byte // at most MaxData bytes of one stream; nil for a gap
	Gap    uint64 // length of the gap; 0 for output
}

// End returns the offset after the piece.
func (p Piece) End() uint64 { return p.Offset + uint64(len(p.Data)) + p.Gap }

// Reader goes through a ring's output from an offset. While it's open nothing that it hasn't returned is dropped, so it must be read on
// or closed. Its methods are for one goroutine, except Close.
type Reader struct {
	ring *Ring
	pos  uint64 // guarded by ring.mu: the next byte to return

	file  *os.File // the segment that at lies in, or nil
	start uint64   // that segment's first offset
	at    int64    // where the next record begins in it
	rec   uint64   // that record's first offset
	buf   []byte
}

// readAhead is how much of a segment is read at once: two records of the largest size.
const readAhead = 2 * (MaxData + headerBytes)

// Reader attaches a reader at an offset, mid-record too. ErrBeyond if the log is shorter.
func (r *Ring) Reader(from uint64) (*Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from > r.next {
		return nil, fmt.Errorf("read from offset %d of %d: %w", from, r.next, ErrBeyond)
	}
	rd := &Reader{ring: r, pos: from}
	r.readers[rd] = struct{}{}
	r.broadcast()
	return rd, nil
}

// Next returns the next piece. It waits for one until ctx ends, and returns io.EOF after the last piece of a finished ring.
func (rd *Reader) Next(ctx context.Context) (Piece, error) {
	r := rd.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if start := r.start(); rd.pos < start {
			p := Piece{Offset: rd.pos, Gap: start - rd.pos}
			rd.advance(start)
			return p, nil
		}
		if rd.pos < r.next {
			return rd.read()
		}
		if r.finished {
			return Piece{}, io.EOF
		}
		if err := r.wait(ctx); err != nil {
			return Piece{}, err
		}
	}
}

// Close detaches the reader: the ring may drop what it hasn't returned. Any goroutine may call it, more than once; a reader that is
// used afterwards goes on, but is told gaps.
func (rd *Reader) Close() {
	r := rd.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.readers, rd)
	rd.leave()
	r.broadcast()
}

func (rd *Reader) advance(pos uint64) {
	rd.pos = pos
	rd.ring.broadcast()
}

// read returns output from pos on: as many neighbouring records of one stream as fit into one piece.
func (rd *Reader) read() (Piece, error) {
	if err := rd.enter(rd.ring.segmentOf(rd.pos)); err != nil {
		return Piece{}, err
	}
	for {
		p, err := rd.take()
		if err != nil {
			return Piece{}, err
		}
		if len(p.Data) > 0 {
			rd.advance(p.End())
			return p, nil
		}
	}
}

// take parses what one read of the segment yields: records before pos are passed over, then those of one stream are joined.
func (rd *Reader) take() (Piece, error) {
	if rd.buf == nil {
		rd.buf = make([]byte, readAhead)
	}
	n, err := rd.file.ReadAt(rd.buf, rd.at)
	if err != nil && err != io.EOF {
		return Piece{}, fmt.Errorf("read kept output: %w", err)
	}
	p := Piece{Offset: rd.pos}
	rest := rd.buf[:n]
	for first := true; ; first = false {
		s, data, after, err := parseRecord(rest)
		if err != nil {
			if first {
				return Piece{}, fmt.Errorf("read kept output at offset %d: %w", rd.rec, err)
			}
			return p, nil
		}
		end := rd.rec + uint64(len(data))
		if end > rd.pos {
			data = data[max(rd.pos, rd.rec)-rd.rec:]
			if len(p.Data) > 0 && (s != p.Stream || len(p.Data)+len(data) > MaxData) {
				return p, nil
			}
			p.Stream, p.Data = s, append(p.Data, data...)
		}
		rd.at += int64(len(rest) - len(after))
		rd.rec, rest = end, after
	}
}

// enter opens the segment unless the reader is in it already.
func (rd *Reader) enter(s segment) error {
	if rd.file != nil && rd.start == s.start {
		return nil
	}
	rd.leave()
	f, err := os.Open(s.path(rd.ring.dir))
	if err != nil {
		return fmt.Errorf("read kept output: %w", err)
	}
	rd.file, rd.start, rd.at, rd.rec = f, s.start, 0, s.start
	return nil
}

func (rd *Reader) leave() {
	if rd.file != nil {
		rd.file.Close()
		rd.file = nil
	}
}

// segmentOf returns the segment that holds the byte at an offset between start and next.
func (r *Ring) segmentOf(offset uint64) segment {
	for _, s := range r.segments {
		if offset < s.end() {
			return s
		}
	}
	return segment{}
}
