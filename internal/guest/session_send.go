package guest

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/guest/process"
)

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

// send sends Opened, the log from what was acknowledged on, and the exit.
func send(ctx context.Context, stream *link.Stream, session *process.Session, o *guestv1.OpenSession) error {
	out := &sender{ctx: ctx, stream: stream}
	state, _ := session.StdinState()
	err := out.send(&guestv1.FromSession{Message: &guestv1.FromSession_Opened{Opened: &guestv1.Opened{
		StdinReceived: uint64(state.Received), StartedUnixNanos: session.Started().UnixNano(), Pid: uint32(session.PID()),
	}}})
	if err != nil {
		return err
	}
	stop := func() error { return nil }
	if openStdin(o.GetSpec()) {
		stop = tellStdin(ctx, stream, session)
	}
	err = out.output(session, o.GetAcknowledged())
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if err := out.send(&guestv1.FromSession{Message: &guestv1.FromSession_Exit{Exit: exitMessage(session.Exit())}}); err != nil {
		return err
	}
	return stream.CloseSend()
}

// tellStdin tells how far an open stdin is, at once and whenever that changes, until it's stopped.
func tellStdin(ctx context.Context, stream *link.Stream, session *process.Session) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		out := &sender{ctx: ctx, stream: stream}
		for {
			state, changed := session.StdinState()
			m := &guestv1.StdinState{Received: uint64(state.Received), Taken: uint64(state.Taken), Closed: state.Closed}
			if err := out.send(&guestv1.FromSession{Message: &guestv1.FromSession_Stdin{Stdin: m}}); err != nil {
				ended <- err
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				ended <- nil
				return
			}
		}
	}()
	return func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
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
		Code: int32(e.Code), Signal: int32(e.Signal), SignalName: e.SignalName, Offset: e.Offset, At: timestamppb.New(e.At), TimedOut: e.TimedOut, Stopped: e.Stopped,
	}
	if e.Err != nil {
		m.Error = strings.ToValidUTF8(e.Err.Error(), "?")
	}
	return m
}
