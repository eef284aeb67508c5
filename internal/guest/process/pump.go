package process

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// exitGrace is how long after a command's end its pipes may stay open before they are cut: what a child writes that is about to end too still belongs to
// the session. Without such a child the pipes close at once and nothing waits.
const exitGrace = 100 * time.Millisecond

// pipeBytes is how much a pipe holds. A command's last words are among the first pipeBytes read after its end.
const pipeBytes = 64 << 10

// pump moves one pipe's bytes into the log.
type pump struct {
	source Source
	r      *os.File
	log    *log
	stop   <-chan struct{} // the session was dropped
	done   chan struct{}   // closed when everything that counts is in the log
}

// run pumps until the pipe is closed or cut. After a cut it reads on and drops, so that who still holds the pipe isn't blocked or killed by it;
// lingering bounds how many do that, the pipes of the others are closed.
func (p *pump) run(lingering chan struct{}) {
	defer p.r.Close()
	open := p.pump()
	close(p.done)
	if !open {
		return
	}
	select {
	case lingering <- struct{}{}:
		defer func() { <-lingering }()
		p.discard()
	default:
	}
}

// pump returns true if it was cut and somebody still holds the pipe.
func (p *pump) pump() bool {
	buf := make([]byte, firstBuffer)
	for {
		n, err := p.r.Read(buf)
		if n > 0 && !p.log.append(p.stop, p.source, buf[:n]) {
			return false
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return p.drain(buf)
		case err != nil:
			return false
		case n == len(buf) && n < ChunkBytes:
			buf = make([]byte, ChunkBytes)
		}
	}
}

// cut makes pump end with what is in the pipe now.
func (p *pump) cut() { p.r.SetReadDeadline(time.Unix(1, 0)) }

// drain takes what the pipe holds, without waiting, and at most as much as it can hold: a flood has no end.
func (p *pump) drain(buf []byte) (open bool) {
	p.r.SetReadDeadline(time.Time{})
	for taken := 0; taken < pipeBytes; {
		n, err := p.poll(buf[:min(len(buf), pipeBytes-taken)])
		if err == syscall.EAGAIN {
			return true
		}
		if n <= 0 {
			return false
		}
		if !p.log.append(p.stop, p.source, buf[:n]) {
			return false
		}
		taken += n
	}
	return true
}

// poll reads without waiting.
func (p *pump) poll(buf []byte) (n int, err error) {
	raw, err := p.r.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), buf); err != syscall.EINTR {
				return true
			}
		}
	})
	if controlErr != nil {
		return 0, controlErr
	}
	return n, err
}

// discard reads until the last one who holds the pipe is gone.
func (p *pump) discard() {
	buf := make([]byte, firstBuffer)
	for {
		if _, err := p.r.Read(buf); err != nil {
			return
		}
	}
}
