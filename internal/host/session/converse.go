package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/ring"
)

// The limits of a conversation with the guest about one session.
const (
	answerTimeout = 30 * time.Second       // for a guest to take what a client waits for
	stdinChunk    = 32 << 10               // bytes of stdin in one message
	ackBytes      = 64 << 10               // kept output is acknowledged when so much has come,
	ackDelay      = 100 * time.Millisecond // or so long after it came
)

// converse opens the session in the guest and keeps what comes until its exit is on file, or the stream breaks.
func (s *Session) converse(ctx context.Context, l *link.Link) error {
	log, err := s.log()
	if err != nil {
		return onNode(err)
	}
	acknowledged := log.End()
	st, err := s.open(ctx, l, acknowledged)
	if err != nil {
		return err
	}
	defer st.Reset(link.CodeCancelled)
	sent, err := s.opened(ctx, st)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	done, finish := context.WithCancel(gctx)
	kept := make(chan struct{}, 1) // a receive means: the ring has grown
	g.Go(func() error { return s.sendInput(done, st, sent) })
	g.Go(func() error { return s.pass(done, st) })
	g.Go(func() error { return acknowledge(done, st, log, acknowledged, kept) })
	g.Go(func() error {
		defer finish()
		return s.receive(gctx, st, log, kept)
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.input.discard()
	return nil
}

func (s *Session) open(ctx context.Context, l *link.Link, acknowledged uint64) (*link.Stream, error) {
	s.mu.Lock()
	spec, stdin := proto.CloneOf(s.spec), len(s.spec.GetStdin())
	s.mu.Unlock()
	spec.Stdin = nil
	first, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: s.guest, Spec: spec, Acknowledged: acknowledged, StdinBytes: uint64(stdin),
	}}})
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", s.id, err)
	}
	st, err := l.Open(ctx, first)
	if err != nil {
		return nil, fmt.Errorf("open session %s: %w", s.id, err)
	}
	return st, nil
}

// opened waits for the guest's first answer, as long as the link lives: a guest that is silent may go on, and then it starts what it was
// asked for. Who is attached isn't kept waiting, see startPatience. It returns how much stdin the guest has.
func (s *Session) opened(ctx context.Context, st *link.Stream) (received uint64, err error) {
	m, err := receive(ctx, st)
	if err != nil {
		return 0, fmt.Errorf("open session %s: %w", s.id, err)
	}
	o := m.GetOpened()
	if o == nil {
		return 0, violation("session %s: the first message isn't Opened", s.id)
	}
	if err := s.input.opened(o.GetStdinReceived()); err != nil {
		return 0, fmt.Errorf("open session %s: %w", s.id, err)
	}
	if nanos := o.GetStartedUnixNanos(); nanos != 0 {
		if err := s.setStarted(timestamp(nanos), o.GetPid()); err != nil {
			return 0, onNode(err)
		}
	}
	return o.GetStdinReceived(), nil
}

// receive keeps output until the exit.
func (s *Session) receive(ctx context.Context, st *link.Stream, log *ring.Ring, kept chan<- struct{}) error {
	for {
		m, err := receive(ctx, st)
		if err != nil {
			return fmt.Errorf("session %s: %w", s.id, err)
		}
		switch {
		case m.GetOutput() != nil:
			if err := s.keep(ctx, log, m.GetOutput()); err != nil {
				return err
			}
			select {
			case kept <- struct{}{}:
			default:
			}
		case m.GetExit() != nil:
			exit, err := checkExit(m.GetExit(), log.End())
			if err != nil {
				return fmt.Errorf("session %s: %w", s.id, err)
			}
			return onNode(s.setExit(exit))
		case m.GetStdin() != nil:
			if err := s.input.told(m.GetStdin().GetReceived(), m.GetStdin().GetTaken()); err != nil {
				return fmt.Errorf("session %s: %w", s.id, err)
			}
		default:
			return violation("session %s: neither output nor stdin nor exit", s.id)
		}
	}
}

// keep appends the part of an output message that the ring hasn't got.
func (s *Session) keep(ctx context.Context, log *ring.Ring, o *sessionv1.Output) error {
	data, stream, err := checkOutput(o, log.End())
	if err != nil {
		return fmt.Errorf("session %s: %w", s.id, err)
	}
	return onNode(log.Append(ctx, stream, data))
}

// forget tells the guest that it may drop an ended session, and waits for its answer as opened does.
func (s *Session) forget(ctx context.Context, l *link.Link) error {
	first, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_ForgetSession{ForgetSession: &guestv1.ForgetSession{Session: s.guest}}})
	if err != nil {
		return fmt.Errorf("forget session %s: %w", s.id, err)
	}
	st, err := l.Open(ctx, first)
	if err != nil {
		return fmt.Errorf("forget session %s: %w", s.id, err)
	}
	defer st.Reset(link.CodeCancelled)
	if _, err := st.Recv(ctx); err != nil {
		return fmt.Errorf("forget session %s: %w", s.id, err)
	}
	return onNode(s.setForgotten())
}

func send(ctx context.Context, st *link.Stream, m proto.Message) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return st.Send(ctx, b)
}

func receive(ctx context.Context, st *link.Stream) (*guestv1.FromSession, error) {
	b, err := st.Recv(ctx)
	if err != nil {
		return nil, err
	}
	m := new(guestv1.FromSession)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, violation("a message makes no sense: %v", err)
	}
	return m, nil
}

// errNode is wrapped when this node, not the guest, can't do its part: its disk is full, say. The guest keeps what isn't acknowledged.
var errNode = errors.New("the node can't keep the session's log")

func onNode(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNode, err)
}

// unlessDone hides the error of a call that was interrupted because the session has ended.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
