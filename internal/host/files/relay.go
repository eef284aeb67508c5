package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/protobuf/proto"

	space "github.com/space-platform/space"
	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/api/link"
)

// MaxData is how many bytes of content one message carries.
const MaxData = 32 << 10

// Caller is the other end of a call.
type Caller interface {
	// Receive returns the next bytes of an upload; end says that nothing follows. It returns an error when the caller is gone.
	Receive() (data []byte, end bool, err error)
	// Send hands an answer to the caller.
	Send(*sandboxv1.CallResponse) error
}

// Relay has a guest do one thing. A nil error is its success; one that the guest gave is a *space.Error. When the link broke, its error is
// wrapped.
func Relay(ctx context.Context, l *link.Link, a *sandboxv1.Action, c Caller) error {
	rules, ok := rulesOf(a)
	if !ok {
		return space.Errorf(space.CodeInvalid, "the action is unknown to this node")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := relay{caller: c, rules: rules}
	r.idle.moved()
	first, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_Files{Files: a}})
	if err != nil {
		return err
	}
	st, err := l.Open(ctx, first)
	if errors.Is(err, link.ErrTooMany) {
		return space.Errorf(space.CodeUnavailable, "the sandbox is busy with as many calls and sessions as it takes; try again: %w", err)
	}
	if err != nil {
		return fmt.Errorf("reach the guest's files: %w", err)
	}
	defer st.Reset(link.CodeCancelled)
	r.stream = st
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() { cancel(r.idle.watch(ctx, func(ctx context.Context) error { return isThere(ctx, l) })) })
	return r.run(ctx, cancel)
}

// relay is one call.
type relay struct {
	caller Caller
	stream *link.Stream
	rules  rules
	idle   idle
}

// run sends the upload, if the action has one, while it waits for the guest's answers: the guest may end the call at any time.
func (r *relay) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	if r.rules.upload {
		go func() {
			if err := r.send(ctx); err != nil {
				cancel(err)
			}
		}()
	}
	err := r.receive(ctx)
	if err != nil && ctx.Err() != nil && !errors.As(err, new(answered)) {
		return context.Cause(ctx)
	}
	return err
}

// send passes an upload on. Its goroutine ends with the call: Receive returns when the caller's request has been answered.
func (r *relay) send(ctx context.Context) error {
	for {
		data, end, err := r.caller.Receive()
		switch {
		case err == io.EOF:
			return space.Errorf(space.CodeInvalid, "the upload was broken off before its end")
		case err != nil:
			return fmt.Errorf("receive an upload: %w", err)
		case len(data) > MaxData:
			return space.Errorf(space.CodeTooLarge, "a message of an upload has %d bytes, limit %d", len(data), MaxData)
		}
		b, err := proto.Marshal(&guestv1.ToFiles{Data: data, End: end})
		if err != nil {
			return err
		}
		if err := r.stream.Send(ctx, b); err != nil {
			return unlessReset(err)
		}
		r.idle.moved()
		if end {
			return nil
		}
	}
}

// unlessReset hides that the guest has ended the call: its answer says why.
func unlessReset(err error) error {
	var reset *link.ResetError
	if errors.As(err, &reset) || errors.Is(err, link.ErrSendClosed) {
		return nil
	}
	return err
}

// receive passes the guest's answers on until the last.
func (r *relay) receive(ctx context.Context) error {
	for {
		if r.rules.endless && r.rules.seen&r.rules.final != 0 {
			r.idle.pause() // what it's asked for may never happen
		}
		b, err := r.stream.Recv(ctx)
		if err != nil {
			return fmt.Errorf("hear of the guest's files: %w", explain(err))
		}
		r.idle.moved()
		m := new(guestv1.FromFiles)
		if err := proto.Unmarshal(b, m); err != nil {
			return violation("a message makes no sense: %v", err)
		}
		switch {
		case m.GetDone() != nil:
			return r.rules.complete()
		case m.GetError() != nil:
			return answered{r.rules.checkError(m.GetError())}
		}
		answer, err := r.rules.check(m.GetResponse())
		if err != nil {
			return err
		}
		if err := r.caller.Send(answer); err != nil {
			return fmt.Errorf("answer the caller: %w", err)
		}
		r.idle.moved()
	}
}

// explain makes an error of the guest's of a stream that the guest reset or closed without an answer.
func explain(err error) error {
	var reset *link.ResetError
	switch {
	case errors.As(err, &reset) && reset.Remote && reset.Code == link.CodeRefused:
		return space.Errorf(space.CodeUnavailable, "the guest doesn't take this call: it's older than this node, or has too many: %w", err)
	case errors.As(err, &reset) && reset.Remote, err == io.EOF:
		return space.Errorf(space.CodeGuest, "the guest gave up the call without a reason: %w", err)
	}
	return err
}

// answered is an error that the guest gave as its answer.
type answered struct{ err *space.Error }

func (a answered) Error() string { return a.err.Error() }

// Unwrap returns what the guest said.
func (a answered) Unwrap() error { return a.err }
