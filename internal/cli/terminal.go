package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/space-platform/space/client"
)

// interactive connects this terminal, or this stdin, with a session while it runs.
type interactive struct {
	client  *client.Client
	sandbox string
	in      io.Reader
	tell    io.Writer // what went wrong with the input
}

// converse runs a session that takes input while it runs. In a terminal an interrupt goes to the command, as Ctrl-C there would.
func (i interactive) converse(ctx context.Context, s client.SessionCreate, show shower) error {
	plane, err := i.client.Plane(ctx, i.sandbox)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	restore, size, err := i.raw(s.Tty != nil)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	defer restore()
	if s.Tty != nil {
		s.Tty.Rows, s.Tty.Cols = size()
	}
	created, err := i.client.CreateSession(ctx, i.sandbox, s)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	f := &forwarder{plane: plane, session: created.Session.Id, sent: length(s.Stdin), in: i.in, tell: i.tell, size: size, tty: s.Tty != nil}
	defer f.stop()
	return showSession(ctx, i.client, created, func(e client.Event) error {
		if e.Type == client.EventStarted {
			f.start(ctx) // a session takes input from then on
		}
		return show(e)
	})
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

// forwarder sends what happens here to a session that has started.
type forwarder struct {
	plane   *client.Plane
	session string
	sent    int64
	in      io.Reader
	tell    io.Writer
	size    func() (rows, cols int)
	tty     bool

	cancel context.CancelFunc // nil until it was started
	sizes  sync.WaitGroup
}

// start begins to send; a second start does nothing: a client that came back sees the session's start again.
func (f *forwarder) start(ctx context.Context) {
	if f.cancel != nil {
		return
	}
	ctx, f.cancel = context.WithCancel(ctx)
	// A read of a terminal can't be interrupted, so its reader is left behind when the program ends; nothing waits for it.
	go f.input(ctx)
	if f.tty {
		f.sizes.Go(func() { f.resize(ctx) })
	}
}

func (f *forwarder) stop() {
	if f.cancel != nil {
		f.cancel()
	}
	f.sizes.Wait()
}

// input sends stdin until it ends. A session that has ended takes nothing more; its exit says all then.
func (f *forwarder) input(ctx context.Context) {
	_, err := f.plane.SendStdin(ctx, f.session, f.sent, f.in, true)
	if err != nil && ctx.Err() == nil && !over(err) {
		fmt.Fprintf(f.tell, "space: the command's input broke off: %v\n", err)
	}
}

// over tells whether an error says that the session has ended, or closed its input.
func over(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Code == "conflict" || refused.Code == "not_found" || refused.Code == "session_lost" || refused.Code == "execution_lost")
}

// resize tells the session each new size of the terminal; one that is lost is followed by the next.
func (f *forwarder) resize(ctx context.Context) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			rows, cols := f.size()
			f.plane.Resize(ctx, f.session, rows, cols)
		}
	}
}

func length(b *[]byte) int64 {
	if b == nil {
		return 0
	}
	return int64(len(*b))
}
