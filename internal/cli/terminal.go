package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/space-platform/space/client"
)

// interactive connects this terminal, or this stdin, with a session while it runs.
type interactive struct {
	client  *client.Client
	sandbox string
	in      io.Reader
}

// start creates the session and begins to send it what is typed. stop ends that and gives the terminal back.
func (i interactive) start(ctx context.Context, s client.SessionCreate) (created client.SessionCreated, stop func(), err error) {
	plane, err := i.client.Plane(ctx, i.sandbox)
	if err != nil {
		return created, nil, err
	}
	restore, size, err := i.raw(s.Tty != nil)
	if err != nil {
		return created, nil, err
	}
	if s.Tty != nil {
		s.Tty.Rows, s.Tty.Cols = size()
	}
	if created, err = i.client.CreateSession(ctx, i.sandbox, s); err != nil {
		restore()
		return created, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := forwarder{plane: plane, session: created.Session.Id, sent: length(s.Stdin)}
	// A read of a terminal can't be interrupted, so the reader is left behind when the program ends; nothing waits for it.
	go f.input(ctx, i.in)
	resized := make(chan struct{})
	go func() { defer close(resized); f.sizes(ctx, s.Tty != nil, size) }()
	return created, func() { cancel(); <-resized; restore() }, nil
}

// raw puts the terminal into raw mode, if it is one and a terminal is asked for, and returns how to leave it and how large it is.
func (i interactive) raw(tty bool) (restore func(), size func() (rows, cols int), err error) {
	f, ok := i.in.(*os.File)
	none := func() (int, int) { return 24, 80 }
	if !tty || !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}, none, nil
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, nil, err
	}
	return func() { term.Restore(int(f.Fd()), before) }, func() (int, int) {
		cols, rows, err := term.GetSize(int(f.Fd()))
		if err != nil || rows < 1 || cols < 1 {
			return none()
		}
		return min(rows, 1000), min(cols, 1000)
	}, nil
}

// forwarder sends what happens here to a session.
type forwarder struct {
	plane   *client.Plane
	session string
	sent    int64
}

// input sends stdin until it ends. A session that has ended takes nothing more, which is no error here: its exit says all.
func (f forwarder) input(ctx context.Context, in io.Reader) {
	f.plane.SendStdin(ctx, f.session, f.sent, in, true)
}

// sizes tells the session each new size of the terminal.
func (f forwarder) sizes(ctx context.Context, tty bool, size func() (int, int)) {
	if !tty {
		return
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			rows, cols := size()
			f.plane.Resize(ctx, f.session, rows, cols) // one that is lost is followed by the next
		}
	}
}

func length(b *[]byte) int64 {
	if b == nil {
		return 0
	}
	return int64(len(*b))
}

// converse runs a session that takes input while it runs. An interrupt here goes to the command, as Ctrl-C in its terminal would.
func converse(ctx context.Context, c *client.Client, sandbox string, s client.SessionCreate, in io.Reader, show shower) error {
	i := interactive{client: c, sandbox: sandbox, in: in}
	created, stop, err := i.start(ctx, s)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	defer stop()
	return showSession(ctx, c, created, show)
}
