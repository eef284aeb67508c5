package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// signalled is why a context ended.
type signalled struct{ syscall.Signal }

func (s signalled) Error() string { return fmt.Sprintf("ended by the signal %s", s.Signal) }

// interruptible returns a context that ends with the first signal that wants the program to end; a second one kills it. A reader that went
// away is one of those signals: what was made must be cleaned up then, too.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		select {
		case s := <-got:
			signal.Reset(syscall.SIGINT, syscall.SIGTERM)
			cancel(signalled{s.(syscall.Signal)})
		case <-done:
		}
	}()
	return ctx, func() { close(done); signal.Stop(got); cancel(nil) }
}

// interrupted makes the exit code of a signal, if one ended the context, and else leaves the error as it is.
func interrupted(ctx context.Context, err error) error {
	var s signalled
	if err == nil || !errors.As(context.Cause(ctx), &s) {
		return err
	}
	return exitCode{exitSignal + int(s.Signal), nil}
}
