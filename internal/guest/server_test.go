package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/space-platform/space/api/link"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/guest/account"
	"github.com/space-platform/space/internal/guest/figures"
	"github.com/space-platform/space/internal/guest/files"
	"github.com/space-platform/space/internal/guest/process"
	"github.com/space-platform/space/internal/guest/serial"
)

// testLimit bounds everything that waits.
const testLimit = 60 * time.Second

// reaper is this process's only one; no test uses os/exec.
var reaper = process.NewReaper()

func TestMain(m *testing.M) {
	if err := reaper.Adopt(); err != nil {
		panic(err)
	}
	go reaper.Run()
	// A machine's first process ignores no signal, and its commands inherit that. What starts the tests may, as nohup does; one that is caught is
	// given to commands as it is by default.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// guestd is a running server and the way to it.
type guestd struct {
	t      *testing.T
	ctx    context.Context
	socket string
	table  *process.Table

	wroteOut, frozen, quiesced atomic.Int64                 // calls
	unwritten                  atomic.Pointer[os.PathError] // why the disk fails; nil: it doesn't
}

func startGuest(t *testing.T) *guestd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	d := &guestd{t: t, ctx: ctx, socket: filepath.Join(t.TempDir(), "link"), table: process.NewTable(reaper, process.Attributes{DieWithParent: true})}
	port, err := serial.ListenUnix(d.socket)
	if err != nil {
		t.Fatal(err)
	}
	s := Server{
		Sessions: d.table,
		Files:    files.NewService(account.System),
		Figures:  figures.Here,
		Hooks:    link.Hooks{Sync: func(link.Sync) error { return nil }, Clock: func(time.Time) error { return nil }},
		WriteOut: func() { d.wroteOut.Add(1) },
		Freeze:   func() error { d.frozen.Add(1); return nil },
		Quiesce: func() (unwritten, err error) {
			d.quiesced.Add(1)
			if failed := d.unwritten.Load(); failed != nil {
				unwritten = failed
			}
			return unwritten, nil
		},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve(ctx, port)
	}()
	t.Cleanup(func() {
		d.table.KillAll()
		cancel()
		<-ended
	})
	return d
}

// attach makes a link, as a host does that has just started.
func (d *guestd) attach() *link.Link {
	d.t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		d.t.Fatal(err)
	}
	l, err := link.Host(d.ctx, conn, link.Sync{Execution: "exe_test", Epoch: 1, Adopt: true, Hostname: "test"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { l.Close() })
	return l
}

// call opens a stream with a call.
func (d *guestd) call(l *link.Link, c *guestv1.Call) *link.Stream {
	d.t.Helper()
	b, err := proto.Marshal(c)
	if err != nil {
		d.t.Fatal(err)
	}
	s, err := l.Open(d.ctx, b)
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

func (d *guestd) open(l *link.Link, o *guestv1.OpenSession) *link.Stream {
	d.t.Helper()
	return d.call(l, &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: o}})
}

func sh(script string) *sessionv1.Spec {
	return &sessionv1.Spec{Argv: []string{"/bin/sh", "-c", script}, User: "root", Cwd: "/"}
}

// transcript is what a host has kept of a session.
type transcript struct {
	opened *guestv1.Opened
	out    bytes.Buffer // stdout
	err    bytes.Buffer // stderr
	length uint64
	exit   *sessionv1.Exit
}

// take adds a message and refuses any gap or repetition.
func (r *transcript) take(m *guestv1.FromSession) error {
	switch m := m.Message.(type) {
	case *guestv1.FromSession_Opened:
		r.opened = m.Opened
	case *guestv1.FromSession_Output:
		o := m.Output
		if o.Offset != r.length {
			return fmt.Errorf("output at %d, want %d", o.Offset, r.length)
		}
		r.length += uint64(len(o.Data))
		if o.Stream == sessionv1.Stream_STREAM_STDERR {
			r.err.Write(o.Data)
		} else {
			r.out.Write(o.Data)
		}
	case *guestv1.FromSession_Exit:
		if m.Exit.Offset != r.length {
			return fmt.Errorf("exit at %d after %d bytes", m.Exit.Offset, r.length)
		}
		r.exit = m.Exit
	}
	return nil
}

// receive reads one message.
func (d *guestd) receive(s *link.Stream) (*guestv1.FromSession, error) {
	b, err := s.Recv(d.ctx)
	if err != nil {
		return nil, err
	}
	m := &guestv1.FromSession{}
	return m, proto.Unmarshal(b, m)
}

func (d *guestd) tell(s *link.Stream, m *guestv1.ToSession) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return s.Send(d.ctx, b)
}

func (d *guestd) acknowledge(s *link.Stream, n uint64) error {
	return d.tell(s, &guestv1.ToSession{Message: &guestv1.ToSession_Acknowledged{Acknowledged: n}})
}

// follow reads a session into r, acknowledging everything at once, until its end or limit bytes.
func (d *guestd) follow(s *link.Stream, r *transcript, limit uint64) error {
	for r.length < limit {
		m, err := d.receive(s)
		if err == io.EOF {
			return s.CloseSend()
		}
		if err != nil {
			return err
		}
		if err := r.take(m); err != nil {
			return err
		}
		if m.GetOutput() != nil {
			if err := d.acknowledge(s, r.length); err != nil {
				return err
			}
		}
	}
	return nil
}

const everything = 1 << 62

// run runs a command to its end over a link of its own.
func (d *guestd) run(spec *sessionv1.Spec) *transcript {
	d.t.Helper()
	return d.runOn(d.attach(), spec)
}

func (d *guestd) runOn(l *link.Link, spec *sessionv1.Spec) *transcript {
	d.t.Helper()
	r := &transcript{}
	s := d.open(l, &guestv1.OpenSession{Session: newID(), Spec: spec})
	if err := d.follow(s, r, everything); err != nil {
		d.t.Fatal(err)
	}
	return r
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("ses_%d", ids.Add(1)) }

// resetCode is the code of a stream that was reset by the guest, 0 for any other error.
func resetCode(err error) link.Code {
	var r *link.ResetError
	if errors.As(err, &r) && r.Remote {
		return r.Code
	}
	return 0
}
