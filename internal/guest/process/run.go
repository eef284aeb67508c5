package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timeoutGrace is how long a session's process group has from the polite signal at its deadline to the one that can't be refused.
const timeoutGrace = 2 * time.Second

// follow serves the streams until the command has ended and its output is in the log, and records the exit.
func (s *Session) follow(p streams, c *Child, timeout time.Duration, t *Table) {
	if p.stdin != nil {
		go s.stdin.feed(p.input(), s.ended)
	}
	pumps := []*pump{s.startPump(Stdout, p.stdout, t.lingering)}
	if p.stderr != nil {
		pumps = append(pumps, s.startPump(Stderr, p.stderr, t.lingering))
	}
	status, timedOut := await(c, timeout)
	at, stopped := time.Now(), t.stopping.Load()
	close(s.ended)
	p.closeChild()
	p.stopInput()
	grace := time.AfterFunc(exitGrace, func() {
		for _, pump := range pumps {
			pump.cut()
		}
	})
	for _, pump := range pumps {
		<-pump.done
	}
	grace.Stop()
	s.exit = exitOf(status)
	s.exit.At, s.exit.TimedOut, s.exit.Stopped = at, timedOut, stopped
	s.log.close(func(length uint64) { s.exit.Offset = length })
}

// await waits for a command's end, which it enforces after a timeout; 0 is none. The time in which the machine stands still doesn't count.
func await(c *Child, timeout time.Duration) (status syscall.WaitStatus, timedOut bool) {
	if timeout <= 0 {
		return <-c.Ended, false
	}
	if status, ok := endsWithin(c, timeout); ok {
		return status, false
	}
	c.Sweep()
	c.Signal(syscall.SIGTERM)
	c.Signal(syscall.SIGCONT) // a stopped one gets its signals only when it goes on
	if status, ok := endsWithin(c, timeoutGrace); ok {
		return status, true
	}
	c.Signal(syscall.SIGKILL)
	return <-c.Ended, true
}

// endsWithin waits for a command's end for a time.
func endsWithin(c *Child, d time.Duration) (status syscall.WaitStatus, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case status = <-c.Ended:
		return status, true
	case <-timer.C:
		return 0, false
	}
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
