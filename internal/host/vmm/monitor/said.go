package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxSaid is how much is kept of what a VMM prints. A guest can make it print without end.
const maxSaid = 4 << 10

// pipeBytes is how much a pipe holds (pipe(7)).
const pipeBytes = 64 << 10

// drainLimit bounds how long a dead process's output is read.
const drainLimit = 200 * time.Millisecond

// Said keeps the end of what a process prints, for the error when it dies. The process isn't held up: once nobody reads, because the daemon
// is gone, its writes fail, which a VMM ignores.
type Said struct {
	r      *os.File
	reader sync.WaitGroup

	mu   sync.Mutex
	tail []byte
}

// NewSaid returns the keeper and the file to which the process prints, which the caller closes once the process has it.
func NewSaid() (*Said, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("make a pipe for a process's output: %w", err)
	}
	s := &Said{r: r}
	s.reader.Go(s.read)
	return s, w, nil
}

// NewLastingSaid is NewSaid for a process that can't bear a broken pipe: the file that it gets never breaks, and what nobody takes when the pipe is
// full is refused and lost.
func NewLastingSaid() (*Said, *os.File, error) {
	s, w, err := NewSaid()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	// Opened for both ways the process is a reader of its own output, who is there as long as it is.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		s.Close()
		return nil, nil, fmt.Errorf("make a pipe for a process's output: %w", err)
	}
	f := os.NewFile(uintptr(fd), w.Name())
	if err := unix.SetNonblock(fd, true); err != nil { // behind the back of f, which would undo it when it's passed on
		f.Close()
		s.Close()
		return nil, nil, fmt.Errorf("make a pipe for a process's output: %w", err)
	}
	return s, f, nil
}

func (s *Said) read() {
	b := make([]byte, maxSaid)
	for {
		n, err := s.r.Read(b)
		s.keep(b[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.takeRest(b)
		}
		if err != nil {
			return
		}
	}
}

// takeRest reads what is there without waiting: where the processor is busy, Drain's time may be over before the first look.
func (s *Said) takeRest(b []byte) {
	c, err := s.r.SyscallConn()
	if err != nil {
		return // it's closed
	}
	_ = c.Control(func(fd uintptr) {
		for range pipeBytes / len(b) {
			n, err := unix.Read(int(fd), b)
			if err != nil || n == 0 {
				return
			}
			s.keep(b[:n])
		}
	})
}

func (s *Said) keep(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = append(s.tail, b...)
	if over := len(s.tail) - maxSaid; over > 0 {
		s.tail = bytes.Clone(s.tail[over:])
	}
}

// Last is the end of what was printed, without spaces around it.
func (s *Said) Last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(bytes.TrimSpace(s.tail))
}

// Drain returns the end of what a dead process printed, once all of it was read.
func (s *Said) Drain() string {
	if err := s.r.SetReadDeadline(time.Now().Add(drainLimit)); err == nil { // another process may hold the same pipe
		s.reader.Wait()
	}
	return s.Last()
}

// Close stops reading.
func (s *Said) Close() error {
	err := s.r.Close()
	s.reader.Wait()
	return err
}
