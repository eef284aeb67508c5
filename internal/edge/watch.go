package edge

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// changes are the kinds of a watch's events.
var changes = []string{"create", "write", "remove", "rename", "chmod", "overflow"}

// heard is what came of a call: an answer, or why it ended.
type heard struct {
	m   *sandboxv1.CallResponse
	err error
}

func (e *Edge) watchFiles(w *answer, r *request) error {
	path, err := r.query.path()
	if err != nil {
		return err
	}
	recursive, err := r.query.flag("recursive")
	if err != nil {
		return err
	}
	c, m, err := e.begin(r, &sandboxv1.Action{Action: &sandboxv1.Action_Watch{Watch: &sandboxv1.Watch{Path: path, Recursive: recursive}}})
	if err != nil {
		return err
	}
	defer c.close()
	if m.GetReady() == nil {
		return space.Errorf(space.CodeGuest, "the sandbox answered a watch with something else than that it's ready")
	}
	return e.tellChanges(r.Context(), newSink(w, e.timing), c)
}

// tellChanges sends a watch's events as they come, keep-alives between them, and one last event.
func (e *Edge) tellChanges(ctx context.Context, out *sink, c *call) error {
	out.begin()
	if err := out.flush(); err != nil {
		return err
	}
	if err := out.event(event{name: "ready", data: map[string]any{}}); err != nil {
		return err
	}
	err := e.pumpChanges(ctx, out, c)
	if errors.Is(err, errSlow) {
		return out.farewell(endedEvent(reasonSlowClient))
	}
	return err
}

func (e *Edge) pumpChanges(ctx context.Context, out *sink, c *call) error {
	events := c.listen()
	defer func() {
		c.cancel(nil)
		for range events { // until the listener has ended
		}
	}()
	quiet := time.NewTimer(e.timing.keepAlive)
	defer quiet.Stop()
	for {
		if ctx.Err() != nil {
			return out.farewell(endedEvent(reasonOver(ctx)))
		}
		select {
		case h := <-events:
			ev := changeEvent(ctx, h)
			if err := out.event(ev); err != nil || ev.last {
				return err
			}
		case <-quiet.C:
			if err := out.keepAlive(); err != nil {
				return err
			}
		case <-ctx.Done():
			continue
		}
		quiet.Reset(e.timing.keepAlive)
	}
}

// listen hands out a call's answers as they come, and then why it ended. The channel is closed after that, or when the call was cancelled.
func (c *call) listen() <-chan heard {
	out := make(chan heard)
	go func() {
		defer close(out)
		for {
			m, err := c.stream.Receive()
			if err != nil && !errors.Is(err, io.EOF) {
				err = c.reason(err)
			}
			select {
			case out <- heard{m, err}:
			case <-c.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// changeEvent is a watch's event for the client. What the guest calls its events isn't trusted.
func changeEvent(ctx context.Context, h heard) event {
	switch {
	case h.err != nil && ctx.Err() != nil:
		return endedEvent(reasonOver(ctx))
	case errors.Is(h.err, io.EOF):
		return endedEvent(reasonInterrupted)
	case h.err != nil:
		return watchFailed(h.err)
	case !slices.Contains(changes, h.m.GetEvent().GetKind()):
		return event{name: "error", data: problem(space.Errorf(space.CodeGuest, "the sandbox tells of changes that there are not")), last: true}
	}
	return event{name: h.m.GetEvent().GetKind(), data: map[string]any{"path": h.m.GetEvent().GetPath()}}
}

// watchFailed is the last event of a watch that can't go on: begin anew, or the reason why that would be of no use.
func watchFailed(err error) event {
	switch space.CodeOf(err) {
	case space.CodeExecutionLost, space.CodeSessionLost, space.CodeUnavailable, space.CodeTimeout, space.CodeRouteStale, space.CodeInternal:
		return farewellTo(err)
	}
	return event{name: "error", data: problem(err), last: true}
}
