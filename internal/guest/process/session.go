package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Session is one command, and what it wrote.
type Session struct {
	started time.Time
	log     *log
	stdin   *stdin
	dropped chan struct{} // closed when the session was forgotten
	ended   chan struct{} // closed when the command has ended
	exit    Exit          // valid once the log is closed

	mu      sync.Mutex
	detach  func() // ends whoever serves the session
	serving int    // number of the one who serves it
	pid     int    // 0 when it has ended or never started
}

// Exit is how a session ended.
type Exit struct {
	Code       int            // exit status; meaningless with a signal
	Signal     syscall.Signal // that ended the command, or 0
	SignalName string         // SIGKILL
	Err        error          // why it couldn't be started, with Code 126 or 127
	Offset     uint64         // length of the log
	At         time.Time
}

// Started is when the command was started, or should have been.
func (s *Session) Started() time.Time { return s.started }

// StdinReceived is how many bytes of stdin the session has.
func (s *Session) StdinReceived() int64 { return s.stdin.have() }

// Stdin takes stdin that begins at offset. Errors: ErrStdinGap, ErrStdinLong.
func (s *Session) Stdin(offset int64, data []byte) error { return s.stdin.receive(offset, data) }

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

// run notes the command's pid, 0 when it has ended.
func (s *Session) run(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// kill kills the command's process group, if it runs.
func (s *Session) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid > 0 {
		syscall.Kill(-s.pid, syscall.SIGKILL)
	}
}

// newSession returns a session that hasn't started.
func newSession(stdinBytes int64) *Session {
	return &Session{
		started: time.Now(), log: newLog(), stdin: newStdin(stdinBytes),
		dropped: make(chan struct{}), ended: make(chan struct{}),
	}
}

// fail ends a session whose command couldn't be started.
func (s *Session) fail(err error) {
	s.exit = Exit{Code: codeNotExecutable, Err: err, At: time.Now()}
	var start *startError
	if errors.As(err, &start) {
		s.exit.Code = start.code
	}
	close(s.ended)
	s.log.close(func(uint64) {})
}

// pipes are the ends of a session's standard streams.
type pipes struct {
	child  [3]*os.File
	stdin  *os.File // nil if there is none to feed
	stdout *os.File
	stderr *os.File
}

// openPipes makes them. Without stdin the command gets /dev/null.
func openPipes(stdin bool) (p pipes, err error) {
	defer func() {
		if err != nil {
			p.close()
			err = fmt.Errorf("make the session's pipes: %w", err)
		}
	}()
	if stdin {
		p.child[0], p.stdin, err = os.Pipe()
	} else {
		p.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return p, err
	}
	if p.stdout, p.child[1], err = os.Pipe(); err != nil {
		return p, err
	}
	p.stderr, p.child[2], err = os.Pipe()
	return p, err
}

// closeChild closes the ends that the command has now.
func (p pipes) closeChild() {
	for _, f := range p.child {
		f.Close() // nil is refused, nothing more
	}
}

func (p pipes) close() {
	p.closeChild()
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}

// pump serves the pipes until the command has ended and its output is in the log, and records the exit.
func (s *Session) pump(p pipes, ended <-chan syscall.WaitStatus, lingering chan struct{}) {
	if p.stdin != nil {
		go s.stdin.feed(p.stdin, s.ended)
	}
	out := s.startPump(Stdout, p.stdout, lingering)
	err := s.startPump(Stderr, p.stderr, lingering)
	status := <-ended
	at := time.Now()
	s.run(0)
	close(s.ended)
	if p.stdin != nil {
		p.stdin.Close()
	}
	grace := time.AfterFunc(exitGrace, func() { out.cut(); err.cut() })
	<-out.done
	<-err.done
	grace.Stop()
	s.exit = exitOf(status)
	s.exit.At = at
	s.log.close(func(length uint64) { s.exit.Offset = length })
}

func (s *Session) startPump(source Source, r *os.File, lingering chan struct{}) *pump {
	p := &pump{source: source, r: r, log: s.log, stop: s.dropped, done: make(chan struct{})}
	go p.run(lingering)
	return p
}

// exitOf reads a wait status.
func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Signal: status.Signal(), SignalName: unix.SignalName(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}
