package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

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
	if err := send(ctx, stream, session, o.GetAcknowledged()); err != nil {
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
	return process.Spec{
		Argv: spec.GetArgv(), Cwd: spec.GetCwd(), Env: spec.GetEnv(), User: spec.GetUser(),
		StdinBytes: int64(min(o.GetStdinBytes(), process.MaxStdin+1)),
	}
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
		return session.Stdin(int64(m.Stdin.GetOffset()), m.Stdin.GetData())
	}
	return nil
}

// sender sends FromSession messages.
type sender struct {
	ctx    context.Context
	stream *link.Stream
	buf    []byte
}

func (s *sender) send(m *guestv1.FromSession) error {
	var err error
	if s.buf, err = (proto.MarshalOptions{}).MarshalAppend(s.buf[:0], m); err != nil {
		return err
	}
	return s.stream.Send(s.ctx, s.buf)
}

// send sends Opened, the log from offset on, and the exit.
func send(ctx context.Context, stream *link.Stream, session *process.Session, offset uint64) error {
	out := &sender{ctx: ctx, stream: stream}
	err := out.send(&guestv1.FromSession{Message: &guestv1.FromSession_Opened{Opened: &guestv1.Opened{
		StdinReceived: uint64(session.StdinReceived()), StartedUnixNanos: session.Started().UnixNano(),
	}}})
	if err != nil {
		return err
	}
	if err := out.output(session, offset); err != nil {
		return err
	}
	if err := out.send(&guestv1.FromSession{Message: &guestv1.FromSession_Exit{Exit: exitMessage(session.Exit())}}); err != nil {
		return err
	}
	return stream.CloseSend()
}

// firstChunk is how much is sent at once before it's clear that there is more: most sessions print little.
const firstChunk = 4 << 10

// output sends the log until it ends.
func (s *sender) output(session *process.Session, offset uint64) error {
	output := &sessionv1.Output{}
	m := &guestv1.FromSession{Message: &guestv1.FromSession_Output{Output: output}}
	chunk := make([]byte, firstChunk)
	for {
		at, source, n, err := session.Next(s.ctx, offset, chunk)
		if err != nil || n == 0 {
			return err
		}
		output.Stream, output.Offset, output.Data = sessionv1.Stream(source), at, chunk[:n]
		if err := s.send(m); err != nil {
			return err
		}
		offset = at + uint64(n)
		if n == len(chunk) && n < process.ChunkBytes {
			chunk = make([]byte, process.ChunkBytes)
		}
	}
}

func exitMessage(e process.Exit) *sessionv1.Exit {
	m := &sessionv1.Exit{
		Code: int32(e.Code), Signal: int32(e.Signal), SignalName: e.SignalName, Offset: e.Offset, At: timestamppb.New(e.At),
	}
	if e.Err != nil {
		m.Error = strings.ToValidUTF8(e.Err.Error(), "?")
	}
	return m
}
