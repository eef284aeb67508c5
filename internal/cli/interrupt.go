package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalled is why a context ended.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string { return fmt.Sprintf("ended by the signal %s", s.Signal) }

// interrupts are the signals that want this program to end.
type interrupts struct {
	end context.CancelCauseFunc

	mu    sync.Mutex
	to    func(syscall.Signal) // gets them instead; nil: they end the context
	seen  int                  // insistent signals that came
	ended bool                 // one has ended the context
}

// signalsTaken is how many signals are taken for something else than an end at once: for the command, against it, and against waiting for it.
const signalsTaken = 3

// interruptible returns a context that ends with the first signal that wants the program to end; a second one kills it. A reader that went
// away is one of those signals: what was made must be cleaned up then, too.
func interruptible(ctx context.Context) (context.Context, *interrupts, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	i := &interrupts{end: cancel}
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-got:
				i.take(s.(syscall.Signal))
			case <-done:
				return
			}
		}
	}()
	return ctx, i, func() { close(done); signal.Stop(got); cancel(nil) }
}

func (i *interrupts) take(s syscall.Signal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if insistent(s) {
		i.seen++
	}
	if i.to != nil {
		i.to(s)
		return
	}
	if (i.ended || i.seen > signalsTaken) && insistent(s) {
		signal.Reset(s)
		syscall.Kill(os.Getpid(), s)
	}
	i.ended = true
	i.end(signalled{s})
}

// insistent tells whether a second such signal means more than the first. A terminal that is gone, or a reader, may say so often.
func insistent(s syscall.Signal) bool { return s != syscall.SIGHUP && s != syscall.SIGPIPE }

// whileCleaning cleans up. What one signal doesn't keep from being cleaned up, a second one does, the one that led here included.
func (i *interrupts) whileCleaning(ctx context.Context, clean func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	i.divert(func(s syscall.Signal) {
		if i.seen > 1 && insistent(s) {
			cancel(signalled{s})
		}
	})
	defer i.divert(nil)
	return clean(ctx)
}

// divert gives the signals to somebody else, who mustn't wait; to nil, to make them end the context again.
func (i *interrupts) divert(to func(syscall.Signal)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.to = to
}

// interrupted makes the exit code of a signal, if one ended the context, and else leaves the error as it is.
func interrupted(ctx context.Context, err error) error {
	var s signalled
	if err == nil || !errors.As(context.Cause(ctx), &s) {
		return err
	}
	return exitCode{exitSignal + int(s.Signal), nil}
}
