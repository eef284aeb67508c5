package edge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
)

// The reasons of `ended`.
const (
	reasonShuttingDown = "shutting_down" // a process on the way stops
	reasonSlowClient   = "slow_client"   // the client took nothing for timing.slow
	reasonTokenEnded   = "token_ended"   // the token that opened the stream was revoked or has expired
	reasonInterrupted  = "interrupted"   // a process on the way was restarted, or the route has become stale
)

func (e *Edge) attach(w *answer, r *request) error {
	c, err := readCursor(lastEventID, r.Header.Values(lastEventID))
	if err != nil {
		return err
	}
	up, err := e.admit(r, c)
	if err != nil {
		return err
	}
	defer up.close()
	return e.follow(r, newSink(w, e.timing), up)
}

// attachCreated streams a session from its creation on. What goes wrong then is told by an event, and by the answer when the client attaches with what it
// has got. That is sent with what follows at once, in a sandbox that runs, else by itself: there it's waited for the sandbox.
func (e *Edge) attachCreated(w *answer, r *request, made *controlv1.CreateSessionResponse) error {
	out := newSink(w, e.timing)
	out.open(http.StatusCreated)
	created := event{name: "created", data: json.RawMessage(made.GetBody())}
	tell := out.hold
	if made.GetTarget() == nil {
		tell = out.event
	}
	if err := tell(created); err != nil {
		return err
	}
	r.session = made.GetSession()
	up, err := e.admitTo(r, cursor{}, made.GetTarget())
	switch {
	case err != nil && r.Context().Err() != nil:
		return out.farewell(endedEvent(reasonOver(r.Context())))
	case err != nil:
		logFailure(r.Request, err, true)
		return out.farewell(farewellTo(err))
	}
	defer up.close()
	return e.follow(r, out, up)
}

// admit opens the stream of a request to attach. It must be closed.
func (e *Edge) admit(r *request, c cursor) (*upstream, error) { return e.admitTo(r, c, nil) }

// admitTo does the same with a target that is known already, unless it's nil.
func (e *Edge) admitTo(r *request, c cursor, target *controlv1.ResolveAttachmentResponse) (*upstream, error) {
	sleep, err := r.query.letsSleep()
	if err != nil {
		return nil, err
	}
	release, err := e.attaches.take()
	if err != nil {
		return nil, err
	}
	up, err := e.open(r.Context(), attachRequest{session: r.session, token: r.token, sleep: sleep, cursor: c, target: target})
	if err != nil {
		release()
		return nil, forClient(err)
	}
	leave := up.leave
	up.leave = func() { leave(); release() }
	return up, nil
}

// outlet is how one client gets its events.
type outlet interface {
	begin()               // before the first event
	flush() error         // when there's no event yet
	event(event) error    // errSlow: it got through, but late
	keepAlive() error     // in silence
	farewell(event) error // the last event, to a client that is late
}

// follow streams to a client until the last event, and logs why it ended.
func (e *Edge) follow(r *request, out outlet, up *upstream) error {
	from := up.cursor.offset
	err := e.stream(r.Context(), out, up)
	if errors.Is(err, errSlow) {
		err = out.farewell(endedEvent(reasonSlowClient))
	}
	slog.Info("attach ended", "request", r.id, "session", r.session, "from", from, "to", up.cursor.offset, "err", err)
	return nil // the client is told, or is gone
}

func (e *Edge) stream(ctx context.Context, out outlet, up *upstream) error {
	out.begin()
	if up.held == nil {
		if err := out.flush(); err != nil {
			return err
		}
	} else if err := out.event(*up.held); err != nil || up.held.last {
		return err
	}
	return e.pump(ctx, out, up)
}

// pump sends events as they come, keep-alives between them, and one last event.
func (e *Edge) pump(ctx context.Context, out outlet, up *upstream) error {
	quiet := time.NewTimer(e.timing.keepAlive)
	defer quiet.Stop()
	for {
		if ctx.Err() != nil {
			return out.farewell(endedEvent(reasonOver(ctx)))
		}
		select {
		case m, ok := <-up.events:
			ev, send := up.translate(ctx, m, ok)
			if !send {
				continue
			}
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

// translate returns what the client gets for an internal event, or for the end of the stream: then, or when the stream can't be
// trusted to go on, a last event.
func (u *upstream) translate(ctx context.Context, m *sessionv1.AttachResponse, ok bool) (ev event, send bool) {
	switch {
	case !ok && ctx.Err() != nil:
		return endedEvent(reasonOver(ctx)), true
	case !ok:
		return farewellTo(u.over()), true
	}
	ev, send, err := u.cursor.next(m)
	if err != nil {
		return farewellTo(err), true
	}
	return ev, send
}

// farewellTo is the last event of a stream that failed. The client learns of all but a loss when it attaches again.
func farewellTo(err error) event {
	switch space.CodeOf(err) {
	case space.CodeExecutionLost, space.CodeSessionLost:
		return lostEvent(err)
	case space.CodeInternal:
		slog.Error("a session's stream can't go on", "err", err)
	}
	return endedEvent(reasonInterrupted)
}

// forClient turns an internal error into the client's words. The internal stream's from_offset is its Last-Event-ID. What a
// part of the platform says of its own trouble may name sockets and paths, so that goes to the log alone.
func forClient(err error) error {
	var e *space.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == space.CodeInvalid && e.Field == "from_offset":
		return space.FieldErrorf(lastEventID, "%s", e.Message)
	case e.Code == space.CodeUnavailable, e.Code == space.CodeTimeout, e.Code == space.CodeInternal:
		return &space.Error{Code: e.Code, Message: "the sandbox can't be reached right now; try again", Err: err}
	}
	return err
}
