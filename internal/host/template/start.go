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
	if b.order.Start == "" {
		return b.awaitReady(ctx, g.sessions, nil)
	}
	b.said("start " + firstLine(b.order.Start))
	kept, err := session.Open(filepath.Join(b.dir, sessionsName), session.Limits{}, slog.Default())
	if err != nil {
		return err
	}
	defer kept.Close()
	kept.Use(g.link)
	run, leave := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	var follower sync.WaitGroup
	follower.Go(func() { ended <- b.startCommand(run, kept) })
	defer follower.Wait()
	defer leave(errLeft)
	return b.awaitReady(ctx, g.sessions, ended)
}

// errLeft ends the following of a command that runs on.
var errLeft = errors.New("it's left running")

// startCommand follows the start command. It may end, with success: what it started runs on.
func (b *builder) startCommand(ctx context.Context, kept *session.Set) error {
	var mu sync.Mutex
	var tail []string
	exit, err := follow(ctx, kept, b.spec(b.order.Start), func(line string) {
		b.log(b.step, line)
		mu.Lock()
		defer mu.Unlock()
		tail = append(tail, line)
		tail = tail[max(0, len(tail)-maxTail):]
	})
	if err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	if err := exitError(exit, tail); err != nil {
		return &space.Error{
			Code: space.CodeGuest, Field: "start_command", Message: fmt.Sprintf("the start command %q failed: %s", firstLine(b.order.Start), messageOf(err)),
		}
	}
	return nil
}

// awaitReady tries the check until it succeeds, or the start command fails. Without a check the command gets a moment to fail.
func (b *builder) awaitReady(ctx context.Context, sessions *session.Set, ended <-chan error) error {
	if b.order.Ready == "" {
		if ended == nil {
			return nil
		}
		return pause(ctx, startGrace, ended)
	}
	b.said("waiting until it's ready: " + firstLine(b.order.Ready))
	limit := time.Now().Add(readyTimeout)
	for {
		last, exit, err := b.checkReady(ctx, sessions, limit)
		if err == nil && exitError(exit, nil) == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(limit) {
			return b.notReady(err, exit, last)
		}
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
		default:
		}
		if err := pause(ctx, readyPause, nil); err != nil {
			return err
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

func (b *builder) checkReady(ctx context.Context, sessions *session.Set, limit time.Time) (last []string, exit *sessionv1.Exit, err error) {
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	exit, err = follow(ctx, sessions, b.spec(b.order.Ready), func(line string) {
		last = append(last, line)
		last = last[max(0, len(last)-maxTail):]
	})
	return last, exit, err
}

// pause waits, unless something ends meanwhile with an error.
func pause(ctx context.Context, d time.Duration, ended <-chan error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			if err != nil {
				return err
			}
			ended = nil
		}
	}
}
