package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/internal/guest/figures"
	"github.com/space-platform/space/internal/guest/files"
	"github.com/space-platform/space/internal/guest/process"
)

// Server answers calls.
type Server struct {
	Sessions *process.Table
	Files    *files.Service
	Figures  figures.Machine
	Hooks    link.Hooks                    // what a handshake does to this machine
	WriteOut func()                        // the half of a Quiesce that stops nothing
	Freeze   func() error                  // the half that writes out nothing
	Quiesce  func() (unwritten, err error) // see the call
}

// errUnknownCall ends a call that this guest doesn't know: the host is newer.
var errUnknownCall = errors.New("unknown call")

// Serve answers calls on a port, whose Read never returns 0 bytes without an error, until that fails or ctx ends, and returns why.
// It closes the port. Sessions go on.
func (s *Server) Serve(ctx context.Context, port io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := link.NewGuest(port, s.Hooks)
	var calls sync.WaitGroup
	calls.Go(func() { s.accept(ctx, g) })
	stop := context.AfterFunc(ctx, func() { port.Close() })
	err := g.Run()
	stop()
	port.Close()
	cancel()
	calls.Wait()
	return fmt.Errorf("serve the link: %w", err)
}

// accept handles each stream in a goroutine of its own; the link bounds how many there are.
func (s *Server) accept(ctx context.Context, g *link.Guest) {
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		stream, err := g.Accept(ctx)
		if err != nil {
			return
		}
		calls.Go(func() { s.handle(ctx, stream) })
	}
}

// handle answers one call. Its context ends with the stream.
func (s *Server) handle(ctx context.Context, stream *link.Stream) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.call(ctx, stream); err != nil {
		stream.Reset(codeOf(err))
	}
}

// codeOf is what the host gets to know of an error.
func codeOf(err error) link.Code {
	switch {
	case errors.Is(err, errUnknownCall), errors.Is(err, process.ErrTooMany), errors.Is(err, process.ErrRunning):
		return link.CodeRefused
	case errors.Is(err, errReplaced):
		return link.CodeReplaced
	case errors.Is(err, errProtocol):
		return link.CodeProtocol
	}
	return link.CodeInternal
}

// errProtocol ends a call whose messages make no sense.
var errProtocol = errors.New("malformed call")

func (s *Server) call(ctx context.Context, stream *link.Stream) error {
	first, err := stream.Recv(ctx)
	if err != nil {
		return err
	}
	var call guestv1.Call
	if err := proto.Unmarshal(first, &call); err != nil {
		return fmt.Errorf("%w: %w", errProtocol, err)
	}
	switch c := call.Call.(type) {
	case *guestv1.Call_OpenSession:
		return s.openSession(ctx, stream, c.OpenSession)
	case *guestv1.Call_Quiesce:
		answer, err := s.quiesce(c.Quiesce)
		if err != nil {
			return err
		}
		return reply(ctx, stream, answer)
	case *guestv1.Call_Terminate:
		killed := s.Sessions.Terminate(ctx, time.Duration(c.Terminate.GetGraceMillis())*time.Millisecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return reply(ctx, stream, &guestv1.Terminated{Killed: killed})
	case *guestv1.Call_ForgetSession:
		if err := s.Sessions.Forget(c.ForgetSession.GetSession()); err != nil {
			return err
		}
		return reply(ctx, stream, &guestv1.Forgotten{})
	case *guestv1.Call_Files:
		return s.files(ctx, stream, c.Files)
	case *guestv1.Call_Measure:
		usage, err := s.Figures.Measure()
		if err != nil {
			return err
		}
		return reply(ctx, stream, usage)
	}
	return errUnknownCall
}

func (s *Server) quiesce(q *guestv1.Quiesce) (*guestv1.Quiesced, error) {
	switch {
	case q.GetWriteOutOnly():
		s.WriteOut()
		return &guestv1.Quiesced{}, nil
	case q.GetFreezeOnly():
		return &guestv1.Quiesced{}, s.Freeze()
	}
	unwritten, err := s.Quiesce()
	if err != nil || unwritten != nil && !q.GetTellUnwritten() {
		return nil, errors.Join(err, unwritten)
	}
	return &guestv1.Quiesced{Unwritten: errno(unwritten)}, nil
}

// errno is the number of an error; 0 of none.
func errno(err error) uint32 {
	var e syscall.Errno
	if err != nil && !errors.As(err, &e) {
		e = syscall.EIO
	}
	return uint32(e)
}

// reply sends the only answer of a call and ends it.
func reply(ctx context.Context, stream *link.Stream, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if err := stream.Send(ctx, b); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return untilClosed(ctx, stream)
}

// untilClosed waits until the host has closed its side too.
func untilClosed(ctx context.Context, stream *link.Stream) error {
	for {
		if _, err := stream.Recv(ctx); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
