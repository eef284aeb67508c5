package files

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/guest/account"
	"github.com/space-platform/space/internal/guest/rights"
)

// How many calls run at one time. Each has a thread. The others wait.
const (
	MaxLooks     = 16 // that are answered at once: stat, list, rename, …
	MaxTransfers = 16 // that carry contents
	MaxWatches   = 16 // these don't wait: the next one is refused
)

// maxWait is how long a call waits for its turn.
const maxWait = 20 * time.Second

// Conversation is a call's stream. Both methods wait, until ctx ends at the latest.
type Conversation interface {
	// Receive returns the next bytes of an upload. end says that nothing follows; an upload that ends without it was broken off, and that's an error.
	Receive(ctx context.Context) (data []byte, end bool, err error)
	// Send sends an answer, which may be changed afterwards.
	Send(ctx context.Context, m *sandboxv1.CallResponse) error
}

// Service does what is asked of the files of this machine.
type Service struct {
	accounts account.Files

	looks, transfers, watches chan struct{}
}

// NewService returns a service for users that are named in these files.
func NewService(a account.Files) *Service {
	return &Service{
		accounts: a, looks: make(chan struct{}, MaxLooks), transfers: make(chan struct{}, MaxTransfers), watches: make(chan struct{}, MaxWatches),
	}
}

// Do does one thing and returns when it's done: a nil error is its success. An error that the caller of the API caused has a code
// (*space.Error); any other means that the stream has ended.
func (s *Service) Do(ctx context.Context, a *sandboxv1.Action, c Conversation) error {
	do, slots := s.find(a)
	if do == nil {
		return space.Errorf(space.CodeInvalid, "the guest doesn't know this action")
	}
	if err := s.admit(ctx, slots); err != nil {
		return err
	}
	defer func() { <-slots }()
	user, err := s.accounts.Find(a.GetUser())
	if err != nil {
		return space.FieldErrorf("user", "%s", err)
	}
	return rights.As(user, func() error {
		return do(&call{ctx: ctx, conversation: c, user: user, accounts: s.accounts})
	})
}

// find returns what does an action, and the slots it takes one of.
func (s *Service) find(a *sandboxv1.Action) (do func(*call) error, slots chan struct{}) {
	switch a := a.Action.(type) {
	case *sandboxv1.Action_Stat:
		return func(c *call) error { return c.stat(a.Stat) }, s.looks
	case *sandboxv1.Action_List:
		return func(c *call) error { return c.list(a.List) }, s.looks
	case *sandboxv1.Action_MakeDirectory:
		return func(c *call) error { return c.makeDirectory(a.MakeDirectory) }, s.looks
	case *sandboxv1.Action_Rename:
		return func(c *call) error { return c.rename(a.Rename) }, s.looks
	case *sandboxv1.Action_Remove:
		return func(c *call) error { return c.remove(a.Remove) }, s.looks
	case *sandboxv1.Action_Change:
		return func(c *call) error { return c.change(a.Change) }, s.looks
	case *sandboxv1.Action_Read:
		return func(c *call) error { return c.read(a.Read) }, s.transfers
	case *sandboxv1.Action_Write:
		return func(c *call) error { return c.write(a.Write) }, s.transfers
	case *sandboxv1.Action_ReadArchive:
		return func(c *call) error { return c.readArchive(a.ReadArchive) }, s.transfers
	case *sandboxv1.Action_WriteArchive:
		return func(c *call) error { return c.writeArchive(a.WriteArchive) }, s.transfers
	case *sandboxv1.Action_Watch:
		return func(c *call) error { return c.watch(a.Watch) }, s.watches
	}
	return nil, nil
}

// admit waits for a slot.
func (s *Service) admit(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	if slots == s.watches {
		return space.Errorf(space.CodeUnavailable, "a sandbox has at most %d watches at one time", MaxWatches)
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return space.Errorf(space.CodeUnavailable, "%d calls of this kind are at work in the sandbox, and none has ended for %s", cap(slots), maxWait)
	}
}

// call is one call on its thread.
type call struct {
	conversation Conversation
	ctx          context.Context
	user         account.Account
	accounts     account.Files
	names        *account.Names // read when they are first needed
}

func (c *call) send(m *sandboxv1.CallResponse) error { return c.conversation.Send(c.ctx, m) }

// gone is why the call should not go on, or nil.
func (c *call) gone() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}
