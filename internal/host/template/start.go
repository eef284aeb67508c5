package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/session"
)

// The times of what runs in a snapshot.
const (
	readyTimeout = 5 * time.Minute // from the start to the first success of the check
	readyPause   = time.Second     // between two checks
	startGrace   = 2 * time.Second // in which a command fails that can't work, when there is no check
)

// sessionsName is the directory with the sessions that run in a snapshot; machines that are loaded from it go on with copies of it.
const sessionsName = "sessions"

// begin starts the start command, which is left running, and waits until the check succeeds.
func (b *builder) begin(ctx context.Context, g guest) error {
	check := func(ctx context.Context) ([]string, *sessionv1.Exit, error) { return b.checkReady(ctx, g.sessions) }
	if b.order.Start == "" {
		return b.awaitReady(ctx, check)
	}
	b.said("start " + firstLine(b.order.Start))
	kept, err := session.Open(filepath.Join(b.dir, sessionsName), session.Limits{}, slog.Default())
	if err != nil {
		return err
	}
	defer kept.Close()
	kept.Use(g.link)
	return b.beside(ctx, func(ctx context.Context) error { return b.startCommand(ctx, kept) }, check)
}

// errLeft ends the following of a command that runs on.
var errLeft = errors.New("it's left running")

// beside waits for the check while the start command runs. That one may end, but not fail: then nothing is waited for any more, whatever the check
// says. It has a moment to fail in any case.
func (b *builder) beside(ctx context.Context, start func(context.Context) error, check try) error {
	began := time.Now()
	run, leave := context.WithCancelCause(ctx)
	ctx, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var follower sync.WaitGroup
	follower.Go(func() {
		if err := start(run); err != nil {
			failed(err)
		}
	})
	defer follower.Wait()
	defer leave(errLeft)
	if err := b.awaitReady(ctx, check); err != nil {
		return err
	}
	return pause(ctx, startGrace-time.Since(began))
}

// startCommand follows the start command. It may end, with success: what it started runs on.
func (b *builder) startCommand(ctx context.Context, kept *session.Set) error {
	var tail []string
	exit, err := follow(ctx, kept, b.spec(b.order.Start), func(line string) {
		b.log(b.step, line)
		tail = append(tail, line)
		tail = tail[max(0, len(tail)-maxTail):]
	})
	if err != nil {
		return err
	}
	if err := exitError(exit, tail); err != nil {
		return &space.Error{
			Code: space.CodeGuest, Field: "start_command", Message: fmt.Sprintf("the start command %q failed: %s", firstLine(b.order.Start), messageOf(err)),
		}
	}
	return nil
}

// try is one try of the check, until its context ends: what it printed last, and how it ended.
type try func(context.Context) (last []string, exit *sessionv1.Exit, err error)

// awaitReady tries the check until it succeeds, if there's one.
func (b *builder) awaitReady(ctx context.Context, check try) error {
	if b.order.Ready == "" {
		return nil
	}
	b.said("waiting until it's ready: " + firstLine(b.order.Ready))
	limited, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		last, exit, err := check(limited)
		if err == nil && exitError(exit, nil) == nil {
			return nil
		}
		_ = pause(limited, readyPause) // what has ended it is looked at next
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			return b.notReady(err, exit, last)
		}
	}
}

// notReady says how a check went the last time it was tried: how the command ended and what it printed last, or that it was still running.
func (b *builder) notReady(err error, exit *sessionv1.Exit, last []string) error {
	how := exitError(exit, last)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		how = withTail("it was still running when the time was over", last)
	case err != nil:
		how = err
	}
	return &space.Error{Code: space.CodeTimeout, Field: "ready_check", Message: fmt.Sprintf(
		"the ready check %q didn't succeed within %s: %s", firstLine(b.order.Ready), readyTimeout, messageOf(how)), Err: err}
}

// messageOf is an error's text without its code and field, which whoever says more has.
func messageOf(err error) string {
	var e *space.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func (b *builder) checkReady(ctx context.Context, sessions *session.Set) (last []string, exit *sessionv1.Exit, err error) {
	exit, err = follow(ctx, sessions, b.spec(b.order.Ready), func(line string) {
		last = append(last, line)
		last = last[max(0, len(last)-maxTail):]
	})
	return last, exit, err
}

// pause waits, unless its context ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
