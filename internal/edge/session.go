package edge

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	httpapi "github.com/space-platform/space/api/gen/http"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// maxTerminal is the most rows or columns that a terminal has.
const maxTerminal = 1000

// createSession passes the management API's operation on for the holder of a sandbox token; the control plane reads the body. A client that takes events
// is attached at once.
func (e *Edge) createSession(w *answer, r *request) error {
	attach := takesEvents(r.Header)
	made, err := e.makeSession(w, r, attach)
	switch {
	case err != nil:
		return err
	case attach:
		return e.attachCreated(w, r, made)
	}
	return w.raw(http.StatusCreated, made.GetBody())
}

func (e *Edge) makeSession(w *answer, r *request, attach bool) (*controlv1.CreateSessionResponse, error) {
	key, err := r.idempotencyKey()
	if err != nil {
		return nil, err
	}
	body, err := readAll(w, r, maxSessionJSON)
	if err != nil {
		return nil, err
	}
	release, err := e.calls.take()
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), e.timing.create)
	defer cancel()
	resp, err := e.plane.CreateSession(ctx, connect.NewRequest(&controlv1.CreateSessionRequest{
		Sandbox: r.sandbox, Token: r.token, Body: body, IdempotencyKey: key, Attach: attach,
	}))
	if err != nil {
		return nil, inside(err)
	}
	return resp.Msg, nil
}

// takesEvents tells whether a client names events as what it takes.
func takesEvents(h http.Header) bool {
	for _, value := range h.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			if media, _, err := mime.ParseMediaType(part); err == nil && media == eventStream {
				return true
			}
		}
	}
	return false
}

// idempotencyKey is what makes a create repeatable, "" if it's absent.
func (r *request) idempotencyKey() (string, error) {
	switch keys := r.Header.Values(space.IdempotencyKey); len(keys) {
	case 0:
		return "", nil
	case 1:
		return keys[0], space.CheckIdempotencyKey(keys[0])
	default:
		return "", space.FieldErrorf(space.IdempotencyKey, "is given %d times", len(keys))
	}
}

func (e *Edge) listSessions(w *answer, r *request) error {
	r.kept = true
	m, err := e.do(r, &sandboxv1.Action{Action: &sandboxv1.Action_ListSessions{ListSessions: &sandboxv1.ListSessions{}}})
	if err != nil {
		return err
	}
	out := httpapi.LiveSessions{Items: []httpapi.LiveSession{}}
	for _, s := range m.GetSessions().GetSessions() {
		out.Items = append(out.Items, liveSession(s))
	}
	return w.json(http.StatusOK, out)
}

func liveSession(s *sandboxv1.Session) httpapi.LiveSession {
	out := httpapi.LiveSession{
		Id: s.GetSession(), State: httpapi.LiveSessionStateRunning, Argv: append([]string{}, s.GetArgv()...), Cwd: known(s.GetCwd()), User: known(s.GetUser()),
		Tty: s.GetTty(), Error: known(s.GetError()), OutputBytes: signed(s.GetOutput()),
	}
	if s.GetPid() != 0 {
		pid := int64(s.GetPid())
		out.Pid = &pid
	}
	if s.GetStarted() != nil {
		at := s.GetStarted().AsTime()
		out.StartedAt = &at
	}
	if !s.GetEnded() {
		return out
	}
	out.State = httpapi.LiveSessionStateEnded
	out.Stopped, out.Lost, out.TimedOut = truth(s.GetStopped()), truth(s.GetLost()), truth(s.GetTimedOut())
	if s.GetEndedAt() != nil {
		at := s.GetEndedAt().AsTime()
		out.EndedAt = &at
	}
	switch {
	case s.GetLost():
	case s.GetSignal() != 0:
		out.Signal = known(unix.SignalName(unix.Signal(s.GetSignal())))
	default:
		code := int(s.GetCode())
		out.Code = &code
	}
	return out
}

func (e *Edge) signal(w *answer, r *request) error {
	var in httpapi.SessionSignal
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	number, err := checkSignal("signal", in.Signal)
	if err != nil {
		return err
	}
	return e.tellSession(w, r, signalAction(r.session, number))
}

func signalAction(session string, number int32) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Signal{Signal: &sandboxv1.Signal{Session: session, Signal: number}}}
}

// checkSignal reads a signal's name on Linux.
func checkSignal(field, name string) (int32, error) {
	if n := unix.SignalNum(name); n != 0 {
		return int32(n), nil
	}
	return 0, space.FieldErrorf(field, "is %q: want the name of a signal, for example SIGINT", space.Clip(name))
}

func (e *Edge) resize(w *answer, r *request) error {
	var in httpapi.TerminalSize
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if err := checkTerminal(in.Rows, in.Cols); err != nil {
		return err
	}
	return e.tellSession(w, r, resizeAction(r.session, in.Rows, in.Cols))
}

func resizeAction(session string, rows, cols int) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Resize{Resize: &sandboxv1.Resize{Session: session, Rows: uint32(rows), Cols: uint32(cols)}}}
}

func checkTerminal(rows, cols int) error {
	for field, n := range map[string]int{"rows": rows, "cols": cols} {
		if n < 1 || n > maxTerminal {
			return space.FieldErrorf(field, "is %d: want 1 to %d", n, maxTerminal)
		}
	}
	return nil
}

// tellSession does an action about a session that has no answer.
func (e *Edge) tellSession(w *answer, r *request, a *sandboxv1.Action) error {
	t, err := e.enterSession(r)
	if err != nil {
		return err
	}
	defer t.leave()
	if _, err := t.do(r.Context(), a); err != nil {
		return err
	}
	return w.noContent()
}

func (e *Edge) sendStdin(w *answer, r *request) error {
	if _, there := r.query["offset"]; !there {
		return space.FieldErrorf("offset", "is missing: how much of the session's standard input comes before this body")
	}
	from, err := r.query.number("offset", 0, maxOffset, 0)
	if err != nil {
		return err
	}
	last, err := r.query.flag("close")
	if err != nil {
		return err
	}
	t, err := e.enterSession(r)
	if err != nil {
		return err
	}
	defer t.leave()
	c := t.start(r.Context(), &sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: r.session, Offset: from, Close: last}}})
	defer c.close()
	c.patience = doTime // a program needn't read at once
	if err := pour(newBody(w, r, true), c.send); err != nil {
		return err
	}
	m, err := c.answer()
	if err != nil {
		return err
	}
	return w.json(http.StatusOK, httpapi.StdinReceived{Received: signed(m.GetReceived())})
}
