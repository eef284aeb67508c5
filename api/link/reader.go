package link

import (
	"bytes"
	"hash/crc32"
	"io"
	"math"
)

// readBuffer holds one frame that is being completed and what came with it.
const readBuffer = 2 * MaxFrame

// maxEmptyReads is how often in a row a reader may return nothing before it counts as broken.
const maxEmptyReads = 100

// frameReader finds frames in a byte stream, from any position in it.
type frameReader struct {
	r       io.Reader
	buf     []byte
	start   int   // first byte not consumed
	end     int   // first byte not read
	garbage int64 // bytes that belonged to no valid frame
	most    int64 // of garbage
}

func newFrameReader(r io.Reader) *frameReader {
	return &frameReader{r: r, buf: make([]byte, readBuffer), most: math.MaxInt64}
}

// next returns the next valid frame. Its payload is valid until the following call. Errors are the underlying reader's, or that it found more garbage than most.
func (f *frameReader) next() (frame, error) {
	for {
		h, err := f.header()
		if err != nil {
			return frame{}, err
		}
		if err := f.fill(headerLen + h.length); err != nil {
			return frame{}, err
		}
		payload := f.buf[f.start+headerLen : f.start+headerLen+h.length]
		if crc32.Checksum(payload, castagnoli) != h.sum {
			if err := f.drop(headerLen + h.length); err != nil { // never look for frames inside: that is data
				return frame{}, err
			}
			continue
		}
		f.start += headerLen + h.length
		h.payload = payload
		return h.frame, nil
	}
}

// header hunts for the next valid header and leaves start at it.
func (f *frameReader) header() (header, error) {
	for {
		if err := f.fill(headerLen); err != nil {
			return header{}, err
		}
		if h, ok := parseHeader(f.buf[f.start:f.end]); ok {
			return h, nil
		}
		n := f.end - f.start
		if next := bytes.IndexByte(f.buf[f.start+1:f.end], magic0); next >= 0 {
			n = 1 + next
		}
		if err := f.drop(n); err != nil {
			return header{}, err
		}
	}
}

// drop skips n bytes as garbage.
func (f *frameReader) drop(n int) error {
	f.start += n
	if f.garbage += int64(n); f.garbage > f.most {
		return violation("garbage without end")
	}
	return nil
}

// fill reads until n bytes are there; n is at most MaxFrame.
func (f *frameReader) fill(n int) error {
	empty := 0
	for f.end-f.start < n {
		if f.start > 0 && (f.start == f.end || f.start+n > len(f.buf)) {
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		}
		m, err := f.r.Read(f.buf[f.end:])
		f.end += m
		if m > 0 {
			empty = 0
			continue
		}
		if err != nil {
			return err
		}
		if empty++; empty == maxEmptyReads {
			return io.ErrNoProgress
		}
	}
	return nil
}
