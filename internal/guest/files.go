package guest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	routev1 "github.com/space-platform/space/api/gen/route/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
)

// errBroken ends an upload that the host closed before its end.
var errBroken = fmt.Errorf("%w: the upload was broken off", errProtocol)

// files does what is asked of the machine's files. Everything that the caller of the API can understand is answered; anything else resets the stream.
func (s *Server) files(ctx context.Context, stream *link.Stream, a *sandboxv1.Action) error {
	ctx, cancel := untilStreamEnds(ctx, stream)
	defer cancel()
	c := &conversation{stream: stream}
	err := s.Files.Do(ctx, a, c)
	var coded *space.Error
	switch {
	case err == nil:
		err = c.answer(ctx, &guestv1.FromFiles{Message: &guestv1.FromFiles_Done{Done: &guestv1.Done{}}})
	case errors.As(err, &coded):
		err = c.answer(ctx, &guestv1.FromFiles{Message: &guestv1.FromFiles_Error{Error: &routev1.Error{
			Code: string(coded.Code), Field: coded.Field, Message: coded.Message,
		}}})
	}
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return untilClosed(ctx, stream)
}

// untilStreamEnds returns a context that ends when the host gives the call up.
func untilStreamEnds(ctx context.Context, stream *link.Stream) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stream.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// conversation is a stream as the files see it.
type conversation struct {
	stream *link.Stream
	buf    []byte
}

// Receive returns the next bytes of an upload.
func (c *conversation) Receive(ctx context.Context) (data []byte, end bool, err error) {
	b, err := c.stream.Recv(ctx)
	if err == io.EOF {
		return nil, false, errBroken
	}
	if err != nil {
		return nil, false, err
	}
	var m guestv1.ToFiles
	if err := proto.Unmarshal(b, &m); err != nil {
		return nil, false, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return m.GetData(), m.GetEnd(), nil
}

// Send sends an answer.
func (c *conversation) Send(ctx context.Context, m *sandboxv1.CallResponse) error {
	return c.answer(ctx, &guestv1.FromFiles{Message: &guestv1.FromFiles_Response{Response: m}})
}

func (c *conversation) answer(ctx context.Context, m *guestv1.FromFiles) (err error) {
	if c.buf, err = (proto.MarshalOptions{}).MarshalAppend(c.buf[:0], m); err != nil {
		return err
	}
	return c.stream.Send(ctx, c.buf)
}
