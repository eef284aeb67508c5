package service

import (
	"context"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/session"
	"github.com/space-platform/space/internal/peer"
)

// Limits of what a session runs; the API's own are narrower.
const (
	maxStdin   = 1 << 20   // bytes of stdin
	maxCommand = 512 << 10 // bytes of arguments and environment together: they must fit one message to the guest
)

// Attach starts or joins a session and streams its log.
func (h *Host) Attach(ctx context.Context, req *connect.Request[sessionv1.AttachRequest], stream *connect.ServerStream[sessionv1.AttachResponse]) error {
	m := req.Msg
	route, err := peer.Route(m.GetRoute())
	if err == nil {
		err = checkSession(m)
	}
	if err != nil {
		return peer.ToConnect(err)
	}
	q := session.Request{Session: m.GetSession(), Spec: m.GetSpec(), From: m.GetFromOffset(), Resume: m.GetResume()}
	return peer.ToConnect(h.Executions.Attach(ctx, route, q, stream.Send))
}

func checkSession(m *sessionv1.AttachRequest) error {
	if err := space.CheckID(space.PrefixSession, m.GetSession()); err != nil {
		return space.FieldErrorf("session", "%s", err)
	}
	if m.GetSpec() == nil {
		return nil // it's only to be read
	}
	command := len(m.GetSpec().GetCwd()) + len(m.GetSpec().GetUser())
	for _, a := range m.GetSpec().GetArgv() {
		command += len(a) + 1
	}
	for k, v := range m.GetSpec().GetEnv() {
		command += len(k) + len(v) + 2
	}
	switch {
	case len(m.GetSpec().GetArgv()) == 0:
		return space.FieldErrorf("spec.argv", "is empty")
	case command > maxCommand:
		return space.Errorf(space.CodeTooLarge, "arguments and environment have %d bytes, limit %d", command, maxCommand)
	case len(m.GetSpec().GetStdin()) > maxStdin:
		return space.Errorf(space.CodeTooLarge, "stdin has %d bytes, limit %d", len(m.GetSpec().GetStdin()), maxStdin)
	case m.GetSpec().GetTimeout() != nil && (m.GetSpec().GetTimeout().CheckValid() != nil || m.GetSpec().GetTimeout().AsDuration() < 0):
		return space.FieldErrorf("spec.timeout", "isn't a time that can pass")
	}
	if t := m.GetSpec().GetTty(); t != nil {
		return session.CheckTerminal(t)
	}
	return nil
}
