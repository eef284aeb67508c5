package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	"github.com/space-platform/space/api/link"
)

// WriteOut lets a guest write all its dirty data to its disk, while all goes on: a Quiesce soon after it has less to do.
func WriteOut(ctx context.Context, l *link.Link) error {
	call := &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{WriteOutOnly: true}}}
	if err := Ask(ctx, l, call, new(guestv1.Quiesced)); err != nil {
		return fmt.Errorf("have the guest write out its disk: %w", err)
	}
	return nil
}

// Freeze has all processes but the agent stand still until the next greeting. Nothing is written out: for a snapshot whose memory is kept with its disk, and a
// pause. What was written out before (WriteOut) is on the disk, and of the rest the journal holds what a loss of power would leave.
func Freeze(ctx context.Context, l *link.Link) error {
	call := &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{FreezeOnly: true}}}
	if err := Ask(ctx, l, call, new(guestv1.Quiesced)); err != nil {
		return fmt.Errorf("freeze the guest's processes: %w", err)
	}
	return nil
}

// ErrUnwritten is wrapped by Quiesce if all processes stand still, but the disk didn't take all that they wrote: it failed, for instance when the node's
// volume was full. If it failed the journal the guest's file system takes nothing any more until it's mounted anew. The memory may have it still.
var ErrUnwritten = errors.New("the disk didn't take all that was written")

// Quiesce lets a guest write all its dirty data to its disk. All processes but the agent stand still from then on, until the next greeting: it comes
// before a snapshot, and before a pause, after which they would read the time before it. ErrUnwritten says that the disk alone isn't worth a snapshot.
func Quiesce(ctx context.Context, l *link.Link) error {
	answer := new(guestv1.Quiesced)
	err := Ask(ctx, l, &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{TellUnwritten: true}}}, answer)
	var reset *link.ResetError
	switch {
	case errors.As(err, &reset) && reset.Remote && reset.Code == link.CodeInternal: // by an older guest, that doesn't say of what
		if ferr := Freeze(ctx, l); ferr != nil {
			return errors.Join(fmt.Errorf("quiesce the guest: %w", err), ferr)
		}
		return fmt.Errorf("quiesce the guest: %w", ErrUnwritten)
	case err != nil:
		return fmt.Errorf("quiesce the guest: %w", err)
	case answer.GetUnwritten() != 0: // the guest's word, and no error of this host's
		return fmt.Errorf("quiesce the guest: %w: %s", ErrUnwritten, unix.Errno(answer.GetUnwritten()).Error())
	}
	return nil
}

// Terminate ends all processes of a guest's sessions, which have a grace to end by themselves. It returns when none is left.
func Terminate(ctx context.Context, l *link.Link, grace time.Duration) error {
	call := &guestv1.Call{Call: &guestv1.Call_Terminate{Terminate: &guestv1.Terminate{GraceMillis: uint32(grace.Milliseconds())}}}
	if err := Ask(ctx, l, call, new(guestv1.Terminated)); err != nil {
		return fmt.Errorf("end the guest's processes: %w", err)
	}
	return nil
}

// Ask makes a call that has one answer.
func Ask(ctx context.Context, l *link.Link, call *guestv1.Call, answer proto.Message) error {
	first, err := proto.Marshal(call)
	if err != nil {
		return err
	}
	st, err := l.Open(ctx, first)
	if err != nil {
		return err
	}
	defer st.Reset(link.CodeCancelled)
	b, err := st.Recv(ctx)
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, answer)
}
