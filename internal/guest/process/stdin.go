package process

import (
	"errors"
	"os"
	"sync"
)

// MaxStdin is how much stdin a session may have, in bytes. All of it may wait here: a command that reads late must not hold up the
// acknowledgements that come on the same stream.
const MaxStdin = 1 << 20

// The ways in which stdin can be wrong.
var (
	ErrStdinGap  = errors.New("stdin: bytes are missing before this offset")
	ErrStdinLong = errors.New("stdin: more bytes than were announced")
)

// stdin feeds a pipe.
type stdin struct {
	total   int64
	arrived chan struct{} // something was received

	mu       sync.Mutex
	received int64
	waiting  []byte // received, not written yet
}

func newStdin(total int64) *stdin {
	return &stdin{total: total, arrived: make(chan struct{}, 1)}
}

// receive takes data that begins at offset and ignores what it has already.
func (i *stdin) receive(offset int64, data []byte) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case offset < 0 || offset > i.received:
		return ErrStdinGap
	case int64(len(data)) > i.total-offset:
		return ErrStdinLong
	case offset+int64(len(data)) <= i.received:
		return nil
	}
	data = data[i.received-offset:]
	i.waiting = append(i.waiting, data...)
	i.received += int64(len(data))
	select {
	case i.arrived <- struct{}{}:
	default:
	}
	return nil
}

// have is how many bytes were received.
func (i *stdin) have() int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.received
}

// feed writes what arrives to w until everything was written, the command has ended or it doesn't read any more, and closes w.
func (i *stdin) feed(w *os.File, ended <-chan struct{}) {
	defer w.Close()
	for written := int64(0); written < i.total; {
		i.mu.Lock()
		data := i.waiting
		i.waiting = nil
		i.mu.Unlock()
		if len(data) == 0 {
			select {
			case <-i.arrived:
				continue
			case <-ended:
				return
			}
		}
		if _, err := w.Write(data); err != nil {
			return
		}
		written += int64(len(data))
	}
}
