package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/ring"
	"github.com/space-platform/space/internal/peer"
)

// sendTimeout is how long a client may take nothing before it's detached, so that the process goes on: 30 s. The edge, which knows
// the client's own connection, gives up earlier.
const sendTimeout = 30 * time.Second

// startPatience is how long a client waits for the guest to start its session, or to say that it can't: 15 s. A cold guest under emulation takes
// one. The session stays, and starts when the guest goes on.
const startPatience = 15 * time.Second

// errSilent says that the guest didn't start a session in that time.
var errSilent = space.Errorf(space.CodeGuest, "the sandbox's guest hasn't answered within %s: it may be halted, stopped or overloaded; "+
	"attach again, or delete the sandbox", startPatience)

// The reasons of an Ended event.
const (
	reasonShuttingDown = "shutting_down"
	reasonSlowClient   = "slow_client"
)

// Request says what a client wants to see of a session.
type Request struct {
	Session string
	Spec    *sessionv1.Spec // nil: only what there is already is read
	From    uint64          // bytes of the log that it has
	Resume  bool            // it has seen the session start
}

// Send hands one event to the client. It may block.
type Send func(*sessionv1.AttachResponse) error

// Attach starts the session unless the execution knows it, and sends its events from an offset on until it ended, the client fails, or
// ctx ends. An error means that no event told the client why.
func (s *Set) Attach(ctx context.Context, r Request, send Send) error {
	ses, err := s.find(r.Session, r.Spec, r.Resume || r.From > 0)
	if err != nil {
		return err
	}
	log, err := ses.log()
	if err != nil {
		return err
	}
	reader, err := log.Reader(r.From)
	if errors.Is(err, ring.ErrBeyond) && exists(ses.dir, restoredFile) {
		return space.Errorf(space.CodeConflict, "the sandbox was rolled back to before that: the session's output has %d bytes now, and %d were received; attach anew, from the beginning",
			log.End(), r.From)
	}
	if errors.Is(err, ring.ErrBeyond) {
		return space.FieldErrorf("from_offset", "%d lies beyond the end of the session's output", r.From)
	}
	if err != nil {
		return err
	}
	defer reader.Close()
	c := client{send: send, reader: reader}
	ctx, cancel := ses.untilAway(ctx)
	defer cancel()
	err = c.follow(ctx, ses, r.Resume)
	var left *leftError
	switch {
	case errors.As(context.Cause(ctx), &left):
		return send(ended(left.reason))
	case errors.Is(err, errSlowClient):
		return send(ended(reasonSlowClient))
	case ctx.Err() != nil:
		return send(ended(reasonShuttingDown))
	}
	return err
}

// errSlowClient says that the client took nothing for sendTimeout; it was detached then.
var errSlowClient = errors.New("the client takes nothing")

// client is one attached client.
type client struct {
	send   Send
	reader *ring.Reader
}

// follow sends events until the session's last one.
func (c client) follow(ctx context.Context, ses *Session, resume bool) error {
	if !resume {
		if err := c.sendStarted(ctx, ses); err != nil {
			return err
		}
	}
	for {
		p, err := c.reader.Next(ctx)
		if err == io.EOF {
			return c.sendOutcome(ses)
		}
		if err != nil {
			return fmt.Errorf("session %s: %w", ses.id, err)
		}
		if err := c.event(piece(p)); err != nil {
			return err
		}
	}
}

// sendStarted waits until the session has started, and says so; one that never did has only an outcome.
func (c client) sendStarted(ctx context.Context, ses *Session) error {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	for {
		started, exit, lost, changed := ses.outcome()
		if started != nil {
			return c.event(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Started{Started: &sessionv1.Started{At: started, Pid: ses.process()}}})
		}
		if exit != nil || lost != nil {
			return nil
		}
		select {
		case <-changed:
		case <-patience.C:
			return errSilent
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c client) sendOutcome(ses *Session) error {
	_, exit, lost, _ := ses.outcome()
	if exit != nil {
		return c.event(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Exit{Exit: exit}})
	}
	return c.event(&sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Lost{Lost: &sessionv1.Lost{Error: peer.ErrorMessage(lost)}}})
}

// event sends one event. A client that doesn't take it in time is detached, and what it hasn't got may be dropped from then on.
func (c client) event(e *sessionv1.AttachResponse) error {
	detach := time.AfterFunc(sendTimeout, c.reader.Close)
	if err := c.send(e); err != nil {
		detach.Stop()
		return err
	}
	if !detach.Stop() {
		return errSlowClient
	}
	return nil
}

func piece(p ring.Piece) *sessionv1.AttachResponse {
	if p.Gap > 0 {
		return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Gap{Gap: &sessionv1.Gap{From: p.Offset, To: p.End()}}}
	}
	stream := sessionv1.Stream_STREAM_STDOUT
	if p.Stream == ring.Stderr {
		stream = sessionv1.Stream_STREAM_STDERR
	}
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Output{Output: &sessionv1.Output{Stream: stream, Offset: p.Offset, Data: p.Data}}}
}

func ended(reason string) *sessionv1.AttachResponse {
	return &sessionv1.AttachResponse{Event: &sessionv1.AttachResponse_Ended{Ended: &sessionv1.Ended{Reason: reason}}}
}
