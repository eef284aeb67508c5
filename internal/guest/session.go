package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/guest/process"
)

// errReplaced ends the serving of a session that a newer stream serves now.
var errReplaced = errors.New("a newer stream serves the session")

// openSession starts or joins a session and serves it on this stream, until its exit was sent and the host has closed its side.
func (s *Server) openSession(ctx context.Context, stream *link.Stream, o *guestv1.OpenSession) error {
	session, err := s.Sessions.Open(o.GetSession(), specOf(o))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	release := session.Attach(func() { cancel(errReplaced) })
	defer release()
	if err := session.Ready(ctx); err != nil {
		return err
	}
	if !session.Acknowledge(o.GetAcknowledged()) {
		return fmt.Errorf("%w: acknowledged %d bytes, which were never written", errProtocol, o.GetAcknowledged())
	}
	received := make(chan error, 1)
	go func() {
		err := receive(ctx, stream, session)
		if err != nil {
			cancel(err)
		}
		received <- err
	}()
	if err := send(ctx, stream, session, o); err != nil {
		cancel(err)
		<-received
		return cause(ctx, err)
	}
	if err := <-received; err != nil {
		return cause(ctx, err)
	}
	return nil
}

// cause prefers why the context ended.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

func specOf(o *guestv1.OpenSession) process.Spec {
	spec := o.GetSpec()
	p := process.Spec{
		Argv: spec.GetArgv(), Cwd: spec.GetCwd(), Env: spec.GetEnv(), User: spec.GetUser(),
		StdinBytes: int64(min(o.GetStdinBytes(), process.MaxStdin+1)), OpenStdin: openStdin(spec), Timeout: spec.GetTimeout().AsDuration(),
	}
	if t := spec.GetTty(); t != nil {
		p.Terminal = sizeOf(t)
	}
	return p
}

// openStdin reports whether a session's stdin has no length yet. A terminal's never has.
func openStdin(spec *sessionv1.Spec) bool { return spec.GetOpenStdin() || spec.GetTty() != nil }

func sizeOf(t *sessionv1.Terminal) *process.Size {
	return &process.Size{Rows: t.GetRows(), Cols: t.GetCols()}
}

// receive takes acknowledgements and stdin until the host closes its side.
func receive(ctx context.Context, stream *link.Stream, session *process.Session) error {
	for {
		b, err := stream.Recv(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var m guestv1.ToSession
		if err := proto.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
		if err := take(session, &m); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
	}
}

func take(session *process.Session, m *guestv1.ToSession) error {
	switch m := m.Message.(type) {
	case *guestv1.ToSession_Acknowledged:
		if !session.Acknowledge(m.Acknowledged) {
			return fmt.Errorf("acknowledged %d bytes, which were never written", m.Acknowledged)
		}
	case *guestv1.ToSession_Stdin:
		return session.Stdin(int64(m.Stdin.GetOffset()), m.Stdin.GetData(), m.Stdin.GetEnd())
	case *guestv1.ToSession_Signal:
		if m.Signal < 1 || m.Signal > maxSignal {
			return fmt.Errorf("signal %d: want 1 to %d", m.Signal, maxSignal)
		}
		session.Signal(syscall.Signal(m.Signal))
	case *guestv1.ToSession_Resize:
		return session.Resize(*sizeOf(m.Resize))
	}
	return nil
}

// maxSignal is the greatest that Linux has.
const maxSignal = 64
