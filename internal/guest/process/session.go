package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
)

// Session is one command, and what it wrote.
type Session struct {
	started time.Time
	log     *log
	stdin   *stdin
	dropped chan struct{} // closed when the session was forgotten
	ended   chan struct{} // closed when the command has ended
	exit    Exit          // valid once the log is closed

	ready chan struct{} // closed when the command was started or can't be
	child *Child        // valid once ready; nil: it couldn't be started
	tty   *os.File      // valid once ready; nil: no terminal

	mu      sync.Mutex
	detach  func() // ends whoever serves the session
	serving int    // number of the one who serves it
}

// Exit is how a session ended.
type Exit struct {
	Code       int            // exit status; meaningless with a signal
	Signal     syscall.Signal // that ended the command, or 0
	SignalName string         // SIGKILL
	Err        error          // why it couldn't be started, with Code 126 or 127
	TimedOut   bool           // its timeout ended it
	Stopped    bool           // it ended while all processes were being ended
	Offset     uint64         // length of the log
	At         time.Time
}

// Started is when the command was started, or should have been.
func (s *Session) Started() time.Time { return s.started }

// Ready waits until the command was started or couldn't be. The error is the cause of ctx's end.
func (s *Session) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PID is the command's process, 0 if it couldn't be started. Call it when the session is ready.
func (s *Session) PID() int {
	if s.child == nil {
		return 0
	}
	return s.child.PID
}

// StdinState is how far stdin is; changed is closed when that isn't true any more.
func (s *Session) StdinState() (state StdinState, changed <-chan struct{}) { return s.stdin.now() }

// Stdin takes stdin that begins at offset. end says that nothing follows. Errors: ErrStdinGap, ErrStdinLong, ErrStdinFull.
func (s *Session) Stdin(offset int64, data []byte, end bool) error {
	return s.stdin.receive(offset, data, end)
}

// Signal sends a signal to the command's process group. After the command's end it does nothing. Call it when the session is ready.
func (s *Session) Signal(sig syscall.Signal) {
	if s.child != nil {
		s.child.Signal(sig)
	}
}

// Resize changes the terminal's size, which its foreground processes are told by the kernel. After the command's end it does nothing. Errors:
// ErrSize, ErrNoTerminal. Call it when the session is ready.
func (s *Session) Resize(size Size) error {
	if err := size.check(); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return nil
	default:
	}
	if s.tty == nil {
		return ErrNoTerminal
	}
	control(s.tty, func(fd int) error { return setSize(fd, size) }) // fails when it has just ended
	return nil
}

// Acknowledge says that the log before offset is kept elsewhere. It's false if the log isn't that long.
func (s *Session) Acknowledge(offset uint64) bool { return s.log.acknowledge(offset) }

// Attach makes the caller the one who serves the session; who did before is told by its detach. The caller calls release when it ends.
func (s *Session) Attach(detach func()) (release func()) {
	s.mu.Lock()
	before := s.detach
	s.serving++
	me := s.serving
	s.detach = detach
	s.mu.Unlock()
	if before != nil {
		before()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.serving == me {
			s.detach = nil
		}
	}
}

// Next waits for what comes at offset and copies it into b: bytes of one source, which begin at offset, or later if what is there was
// acknowledged already. Zero bytes without an error mean that the log is at its end: Exit is valid.
func (s *Session) Next(ctx context.Context, offset uint64, b []byte) (at uint64, source Source, n int, err error) {
	for {
		at, source, n, closed, changed := s.log.read(offset, b)
		if n > 0 || closed {
			return at, source, n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return at, 0, 0, context.Cause(ctx)
		}
	}
}

// Exit is how the session ended. Call it after Next has said so.
func (s *Session) Exit() Exit { return s.exit }

// over reports whether nothing is lost when the session is forgotten.
func (s *Session) over() bool { return s.log.complete() }

// newSession returns a session that hasn't started.
func newSession(spec Spec) *Session {
	return &Session{
		started: time.Now(), log: newLog(), stdin: newStdin(spec.StdinBytes, spec.OpenStdin),
		dropped: make(chan struct{}), ended: make(chan struct{}), ready: make(chan struct{}),
	}
}

// fail ends a session whose command couldn't be started.
func (s *Session) fail(err error) {
	s.exit = Exit{Code: codeNotExecutable, Err: err, At: time.Now()}
	var start *startError
	if errors.As(err, &start) {
		s.exit.Code = start.code
	}
	s.stdin.close()
	close(s.ready)
	close(s.ended)
	s.log.close(func(uint64) {})
}
