package vmmtest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/vmm"
)

// guest is a machine whose guest has answered.
type guest struct {
	vmm.Machine
	s    *suite
	t    *testing.T
	dir  string // its files
	disk string
	mem  string
	e    vmm.Enclosure
	conn net.Conn
	link *link.Link

	greeted  time.Time // when the newest greeting began
	told     time.Time // when it ended: the guest had been sent the time
	heard    time.Time // when the first command after it ended: the guest had set its clock; zero before
	released bool      // by recover
}

// serial makes ids that no two guests or sessions of a test's process share.
var serial atomic.Uint64

// NextID makes an id that no other of this process has.
func NextID(prefix string) string {
	const digits = "abcdefghijklmnopqrstuvwxyz"
	b := []byte("aaaaaaaaaaaaaaaaaaaaaaaaaa")
	for n, i := serial.Add(1), len(b)-1; n > 0; n, i = n/26, i-1 {
		b[i] = digits[n%26]
	}
	return prefix + string(b)
}

// greet makes the guest answer, as a new execution or as the one that it is already. It returns when it began to.
func (g *guest) greet(adopt bool) time.Time {
	g.t.Helper()
	g.greeted = time.Now()
	d := &dialled{Machine: g.Machine}
	l, err := machine.Greet(g.s.within(g.t), d, link.Sync{Execution: g.e.ID, Epoch: 1, Adopt: adopt, Hostname: strings.ReplaceAll(g.e.ID, "_", "-")})
	if err != nil {
		g.s.giveUp(g.t, g, err)
		g.t.Fatal(err)
	}
	g.conn, g.link, g.told, g.heard = d.conn, l, time.Now(), time.Time{}
	g.t.Cleanup(func() { l.Close() })
	return g.greeted
}

// dialled keeps the last connection to a machine's guest.
type dialled struct {
	vmm.Machine
	conn net.Conn
}

func (d *dialled) DialGuest(ctx context.Context) (_ net.Conn, err error) {
	d.conn, err = d.Machine.DialGuest(ctx)
	return d.conn, err
}

// hangUp ends the link, as one does before a snapshot.
func (g *guest) hangUp() { g.link.Close() }

// sh runs a shell command in the guest as root and returns what it printed, without spaces around. It must succeed.
func (g *guest) sh(command string) string {
	g.t.Helper()
	return g.as("root", command)
}

// as is sh, as another user.
func (g *guest) as(user, command string) string {
	g.t.Helper()
	out, exit, err := g.run(g.s.within(g.t), &sessionv1.Spec{Argv: []string{"sh", "-c", command}, User: user, Cwd: "/"})
	if err != nil {
		g.t.Fatalf("run %q: %v", command, err)
	}
	if g.heard.IsZero() {
		g.heard = time.Now()
	}
	if exit.GetCode() != 0 || exit.GetSignal() != 0 || exit.GetError() != "" {
		g.t.Fatalf("run %q: printed %q and ended with %v", command, out, exit)
	}
	return strings.TrimSpace(out)
}

// fate is what there is to say of a machine that failed a check: how it has ended, and what it printed.
func (g *guest) fate() string {
	select {
	case <-g.Done():
	case <-time.After(time.Second): // a link ends a moment before its machine
	}
	return cmp.Or(g.LastWords(), "it runs, and has said nothing")
}

// session runs a program to its end.
func (g *guest) session(ctx context.Context, argv ...string) (out string, exit *sessionv1.Exit, err error) {
	return g.run(ctx, &sessionv1.Spec{Argv: argv, User: "root", Cwd: "/"})
}

// run runs a session to its end.
func (g *guest) run(ctx context.Context, spec *sessionv1.Spec) (out string, exit *sessionv1.Exit, err error) {
	stream, err := g.open(ctx, &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: NextID("ses_"), Spec: spec,
	}}})
	if err != nil {
		return "", nil, err
	}
	defer stream.Reset(link.CodeCancelled)
	var b strings.Builder
	for {
		m, err := receive(ctx, stream)
		if err != nil {
			return b.String(), nil, err
		}
		if o := m.GetOutput(); o != nil {
			b.Write(o.Data)
			err = acknowledge(ctx, stream, o.Offset+uint64(len(o.Data)))
		}
		if err != nil {
			return b.String(), nil, err
		}
		if e := m.GetExit(); e != nil {
			return b.String(), e, nil
		}
	}
}

func receive(ctx context.Context, s *link.Stream) (*guestv1.FromSession, error) {
	b, err := s.Recv(ctx)
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	m := new(guestv1.FromSession)
	return m, proto.Unmarshal(b, m)
}

func acknowledge(ctx context.Context, s *link.Stream, offset uint64) error {
	b, err := proto.Marshal(&guestv1.ToSession{Message: &guestv1.ToSession_Acknowledged{Acknowledged: offset}})
	if err != nil {
		return err
	}
	return s.Send(ctx, b)
}

// quiesce makes the guest write everything to its disk, and stop.
func (g *guest) quiesce() {
	g.t.Helper()
	ctx := g.s.within(g.t)
	if err := machine.WriteOut(ctx, g.link); err != nil {
		g.t.Fatal(err)
	}
	if err := machine.Quiesce(ctx, g.link); err != nil {
		g.t.Fatal(err)
	}
}
