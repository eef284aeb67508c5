package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
)

const (
	passTimeout = 10 * time.Second // for a signal to reach the command
	hangupGrace = 10 * time.Second // for a command to end after the terminal, or the reader of its output, has gone: nobody is there to ask again
)

// overseer passes the signals that this program gets on to a session's command, which decides what they mean. A second one kills the command
// and ends the waiting for it; a third one doesn't wait until it's killed.
type overseer struct {
	plane   func(context.Context) (*client.Plane, error)
	session string
	tell    io.Writer
	leave   context.CancelCauseFunc // ends the waiting
	grace   time.Duration

	signals chan syscall.Signal // those that came
	started chan struct{}       // closed when the command was started
	once    sync.Once
	stop    func()
	done    sync.WaitGroup
	killer  syscall.Signal // valid after done: the signal for which the command was killed, or 0
}

func newOverseer(plane func(context.Context) (*client.Plane, error), session string, tell io.Writer, leave context.CancelCauseFunc) *overseer {
	return &overseer{plane: plane, session: session, tell: tell, leave: leave, grace: hangupGrace, signals: make(chan syscall.Signal, 3), started: make(chan struct{})}
}

// start begins to get the signals, until it's stopped.
func (o *overseer) start(ctx context.Context, signals *interrupts) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	o.stop = sync.OnceFunc(func() {
		signals.divert(nil)
		cancel()
		o.done.Wait()
	})
	o.done.Go(func() {
		o.watch(ctx)
		cancel() // no signal is of use any more
	})
	signals.divert(o.take)
	return o.stop
}

// ending stops it, if it was started, and returns how this program ends: as the command did, unless that was killed because somebody insisted.
func (o *overseer) ending(command error) error {
	if o.stop != nil {
		o.stop()
	}
	if o.killer != 0 {
		return exitCode{exitSignal + int(o.killer), nil}
	}
	return command
}

// take takes a signal without waiting. That a write failed tells more about a reader's end than its signal does, see brokenOutput.
func (o *overseer) take(s syscall.Signal) {
	if s == syscall.SIGPIPE {
		return
	}
	o.pass(s)
}

// brokenOutput tells the command that nobody reads what it writes, as a pipe would.
func (o *overseer) brokenOutput() { o.pass(syscall.SIGPIPE) }

func (o *overseer) pass(s syscall.Signal) {
	select {
	case o.signals <- s:
	default: // three wait already, and no more means more
	}
}

// hasStarted says that the command runs: it takes signals from then on.
func (o *overseer) hasStarted() { o.once.Do(func() { close(o.started) }) }

// watch passes signals on until ctx ends.
func (o *overseer) watch(ctx context.Context) {
	var first syscall.Signal
	select {
	case first = <-o.signals:
	case <-ctx.Done():
		return
	}
	passing, insisted := context.WithCancel(ctx)
	defer insisted()
	o.done.Go(func() {
		select {
		case <-o.started:
			o.send(passing, first)
		case <-passing.Done():
		}
	})
	second := o.second(ctx, first)
	if second == 0 {
		return
	}
	insisted()
	o.killer = second
	killed := make(chan struct{})
	o.done.Go(func() {
		defer close(killed)
		o.send(ctx, syscall.SIGKILL)
	})
	select {
	case <-killed:
	case <-o.signals: // the platform may hang
	case <-ctx.Done():
	}
	o.leave(signalled{second})
}

// second waits for the signal that ends the waiting. Of signals that come when nobody is there any more, the first is enough, after the grace.
func (o *overseer) second(ctx context.Context, first syscall.Signal) syscall.Signal {
	var late <-chan time.Time
	if first == syscall.SIGHUP || first == syscall.SIGPIPE {
		late = time.After(o.grace)
	}
	select {
	case s := <-o.signals:
		return s
	case <-late:
		return first
	case <-ctx.Done():
		return 0
	}
}

// send passes a signal on. The command may have ended meanwhile.
func (o *overseer) send(ctx context.Context, s syscall.Signal) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	plane, err := o.plane(ctx)
	if err == nil {
		err = plane.SignalAwake(ctx, o.session, unix.SignalName(s))
	}
	if err != nil && ctx.Err() != context.Canceled && !over(err) {
		fmt.Fprintf(o.tell, "space: the command couldn't be told of %s: %s\r\n", unix.SignalName(s), printable(explain(err).Message, ""))
	}
}
