package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	maxLine  = 128 << 10 // of a stream: 32 KiB of output in base64, with its JSON, is a third of it
	maxEvent = 256 << 10 // all data lines of one event
)

// message is one server-sent event, before its data is understood.
type message struct {
	event string
	id    string
	data  []byte // until the next one is read
}

// messages reads server-sent events. Comments, unknown fields and retry are ignored, as the standard says for the latter two; lines end
// with LF or CRLF, which is what our servers and the proxies before them send.
type messages struct {
	r    *bufio.Reader
	id   string // the newest id that came, also without an event
	data []byte // of the newest event; its memory is used again
}

// lineReaders are those of streams that have ended: their memory is more than most streams bring.
var lineReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, maxLine) }}

// newMessages reads a stream. Close it when it isn't read any more.
func newMessages(r io.Reader) *messages {
	lines := lineReaders.Get().(*bufio.Reader)
	lines.Reset(r)
	return &messages{r: lines}
}

func (m *messages) close() {
	m.r.Reset(nil)
	lineReaders.Put(m.r)
	m.r = nil
}

// errTooLong is returned for a line or an event beyond its limit.
var errTooLong = errors.New("the stream has a line or an event that is too long")

// next returns the next event that has data. io.EOF when the stream ended; an event that it cut off is dropped.
func (m *messages) next() (message, error) {
	out := message{data: m.data[:0]}
	hasData := false
	for {
		line, err := m.line()
		if err != nil {
			return message{}, err
		}
		if len(line) == 0 {
			if hasData {
				m.data = out.data
				return out, nil
			}
			out = message{data: out.data[:0]}
			continue
		}
		name, value := field(line)
		switch name {
		case "event":
			out.event = string(value)
		case "id":
			out.id = string(value)
			m.id = out.id
		case "data":
			if hasData {
				out.data = append(out.data, '\n')
			}
			hasData = true
			if len(out.data)+len(value) > maxEvent {
				return message{}, fmt.Errorf("%w: more than %d bytes of data", errTooLong, maxEvent)
			}
			out.data = append(out.data, value...)
		}
	}
}

// line returns a line without its end; it's valid until the next call.
func (m *messages) line() ([]byte, error) {
	line, err := m.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("%w: a line of more than %d bytes", errTooLong, maxLine)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// field splits a line at its first colon and drops one space after it. A comment has the empty name.
func field(line []byte) (name string, value []byte) {
	n, v, _ := bytes.Cut(line, []byte(":"))
	return string(n), bytes.TrimPrefix(v, []byte(" "))
}
