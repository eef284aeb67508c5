package service

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/files"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/peer"
)

// maxAction bounds an action in bytes: its paths, above all, have at most 4096 each.
const maxAction = 64 << 10

// Call does one thing in a sandbox: with its files, its live sessions, or its figures.
func (h *Host) Call(ctx context.Context, stream *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]) error {
	first, err := stream.Receive()
	if err == io.EOF {
		return peer.ToConnect(space.Errorf(space.CodeInvalid, "the call has no first message"))
	}
	if err != nil {
		return err
	}
	route, err := peer.Route(first.GetRoute())
	if err == nil && proto.Size(first.GetAction()) > maxAction {
		err = space.Errorf(space.CodeTooLarge, "the action has %d bytes, limit %d", proto.Size(first.GetAction()), maxAction)
	}
	if err == nil {
		err = h.act(ctx, route, first.GetAction(), caller{stream})
	}
	return peer.ToConnect(err)
}

// caller is the other end of a call.
type caller struct {
	stream *connect.BidiStream[sandboxv1.CallRequest, sandboxv1.CallResponse]
}

// Receive returns the next bytes of an upload.
func (c caller) Receive() (data []byte, end bool, err error) {
	m, err := c.stream.Receive()
	if errors.Is(err, io.EOF) { // which Connect wraps
		return nil, false, io.EOF
	}
	return m.GetData(), m.GetEnd(), err
}

// Send hands over an answer.
func (c caller) Send(m *sandboxv1.CallResponse) error { return c.stream.Send(m) }

func (h *Host) act(ctx context.Context, r space.Route, a *sandboxv1.Action, c caller) error {
	switch x := a.GetAction().(type) {
	case nil:
		return space.FieldErrorf("action", "is missing")
	case *sandboxv1.Action_ListSessions:
		return h.listSessions(r, c)
	case *sandboxv1.Action_Signal:
		return h.withSession(r, x.Signal.GetSession(), func(s *session.Set) error {
			return s.Signal(ctx, x.Signal.GetSession(), x.Signal.GetSignal())
		})
	case *sandboxv1.Action_Resize:
		return h.withSession(r, x.Resize.GetSession(), func(s *session.Set) error {
			return s.Resize(ctx, x.Resize.GetSession(), &sessionv1.Terminal{Rows: x.Resize.GetRows(), Cols: x.Resize.GetCols()})
		})
	case *sandboxv1.Action_Stdin:
		return h.withSession(r, x.Stdin.GetSession(), func(s *session.Set) error { return bringStdin(ctx, s, x.Stdin, c) })
	case *sandboxv1.Action_Figures:
		u, err := h.Executions.Usage(ctx, r)
		if err != nil {
			return err
		}
		return c.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Figures{Figures: u}})
	}
	return h.Executions.Guest(ctx, r, func(l *link.Link) error { return files.Relay(ctx, l, a, c) })
}

// withSession calls f with the sessions of an execution, of which one is named.
func (h *Host) withSession(r space.Route, id string, f func(*session.Set) error) error {
	if err := checkID("session", space.PrefixSession, id); err != nil {
		return err
	}
	s, err := h.Executions.Sessions(r)
	if err != nil {
		return err
	}
	return f(s)
}

// bringStdin brings an upload to a session.
func bringStdin(ctx context.Context, s *session.Set, a *sandboxv1.Stdin, c caller) error {
	ended := false
	next := func() ([]byte, error) {
		if ended {
			return nil, io.EOF
		}
		data, end, err := c.Receive()
		switch {
		case err == io.EOF:
			return nil, space.Errorf(space.CodeInvalid, "the upload was broken off before its end")
		case err != nil:
			return nil, err
		case len(data) > files.MaxData:
			return nil, space.Errorf(space.CodeTooLarge, "a message of an upload has %d bytes, limit %d", len(data), files.MaxData)
		}
		ended = end
		return data, nil
	}
	in := session.Input{Session: a.GetSession(), Offset: a.GetOffset(), Append: a.GetAppend(), Close: a.GetClose()}
	received, err := s.Stdin(ctx, in, next)
	if err != nil {
		return err
	}
	return c.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Received{Received: received}})
}

func (h *Host) listSessions(r space.Route, c caller) error {
	s, err := h.Executions.Kept(r)
	if err != nil {
		return err
	}
	out := &sandboxv1.Sessions{}
	for _, i := range s.List() {
		out.Sessions = append(out.Sessions, sessionMessage(i))
	}
	return c.Send(&sandboxv1.CallResponse{Response: &sandboxv1.CallResponse_Sessions{Sessions: out}})
}

func sessionMessage(i session.Info) *sandboxv1.Session {
	m := &sandboxv1.Session{Session: i.Session, Pid: i.PID, Argv: i.Argv, Cwd: i.Cwd, User: i.User, Tty: i.TTY, Output: i.Output}
	if !i.Started.IsZero() {
		m.Started = timestamppb.New(i.Started)
	}
	switch {
	case i.Exit != nil:
		m.Ended, m.Code, m.Signal, m.Error, m.EndedAt = true, i.Exit.GetCode(), i.Exit.GetSignal(), i.Exit.GetError(), i.Exit.GetAt()
		m.Stopped, m.TimedOut = i.Exit.GetStopped(), i.Exit.GetTimedOut()
	case i.Lost != nil:
		m.Ended, m.Lost, m.Error, m.EndedAt = true, true, peer.ErrorMessage(i.Lost).GetMessage(), timestamppb.New(i.EndedAt)
	}
	return m
}
