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

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// conversation runs one command in a sandbox, from here: its output comes here, signals go there, and so does what is typed or piped in
// while it runs.
type conversation struct {
	door    door
	signals *interrupts
	in      io.Reader // nil: nothing is sent while it runs
	tell    io.Writer // what went wrong on the way
	watches bool      // it only watches: signals end that, and don't go there
}

// run creates a session and stays with it until its end. It returns how this program should end.
func (c conversation) run(ctx context.Context, s client.SessionCreate, show shower) error {
	return c.stay(ctx, s.Tty, show, func(ctx context.Context) (joined, error) {
		created, err := c.door.create(ctx, s)
		return joined{SessionCreated: created, sent: length(s.Stdin), tty: s.Tty}, err
	})
}

// stay begins a session, or joins one, and stays until its end. tty is the size of its terminal, which becomes this one's; nil: it has none.
func (c conversation) stay(ctx context.Context, tty *gen.TerminalSize, show shower, begin func(context.Context) (joined, error)) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	plane := &lazyPlane{open: c.door.open}
	defer plane.close(ctx)
	restore, size, err := c.raw(tty != nil)
	if err != nil {
		return exitCode{exitPlatform, err}
	}
	defer restore()
	if c.in != nil { // before the command starts: it may be as short as this takes
		if _, err := plane.get(ctx); err != nil {
			return exitCode{exitPlatform, err}
		}
	}
	joins := tty != nil && *tty == (gen.TerminalSize{})
	if tty != nil && !joins {
		tty.Rows, tty.Cols = size()
	}
	waiting := startProgress(c.tell, "waiting for the sandbox") // which may have to be woken
	waited := sync.OnceFunc(waiting.end)
	defer waited()
	s, err := begin(ctx)
	if err != nil {
		waited()
		return interrupted(ctx, exitCode{exitPlatform, err})
	}
	in, joined := c.in, waited
	if joins && isTerminal(in) {
		joined = func() {
			waited()
			fmt.Fprint(c.tell, "space: attached; Ctrl-] detaches\r\n")
		}
		in = detachable{in, leave}
	}
	o := newOverseer(plane.get, s.Session.Id, c.tell, leave)
	if !c.watches {
		defer o.start(ctx, c.signals)()
	}
	if joins && !isTerminal(in) {
		s.tty = nil // there is no size to tell
	}
	f := &forwarder{plane: plane.get, session: s.Session.Id, sent: s.sent, in: in, tell: c.tell, size: size, tty: s.tty}
	defer f.stop()
	lost := losses{joined: s.sent == unknownOffset, from: s.begins}
	show, broken := untilBroken(lost.watch(show), o)
	if s.from > 0 { // its start isn't told
		o.hasStarted()
		f.start(ctx)
	}
	suspended := client.WhenSuspended(func() { waited(); c.tellSuspended(tty != nil) })
	err = showSession(c.door.attach(ctx, s.SessionCreated, client.FromOffset(s.from), suspended, client.WhenJoined(joined)), func(e client.Event) error {
		waited()
		if e.Type == client.EventStarted {
			o.hasStarted()
			f.start(ctx) // a session takes input from then on
		}
		return show(e)
	})
	return lost.ending(broken(o.ending(err)))
}

// tellSuspended says why nothing happens.
func (c conversation) tellSuspended(raw bool) {
	end := "\n"
	if raw {
		end = "\r\n"
	}
	fmt.Fprint(c.tell, "space: the sandbox is suspended: waiting until it's woken, as with 'space sandbox wake'", end)
}

// untilBroken shows events until that fails: then the command is told, and what it does until its end isn't shown. broken makes the failure
// the ending's error, unless only the reader has gone: the command's own end says that.
func untilBroken(show shower, o *overseer) (shower, func(ending error) error) {
	var failure error
	return func(e client.Event) error {
			if failure != nil {
				return nil
			}
			if failure = show(e); failure != nil {
				o.brokenOutput()
			}
			return nil
		}, func(ending error) error {
			if failure == nil || errors.Is(failure, syscall.EPIPE) {
				return ending
			}
			return exitCode{exitPlatform, fmt.Errorf("show the command's output: %w", failure)}
		}
}

// raw puts the terminal into raw mode, if it is one and a terminal is asked for, and returns how to leave it and how large it is.
func (c conversation) raw(tty bool) (restore func(), size func() (rows, cols int), err error) {
	f, ok := c.in.(*os.File)
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
	plane   func(context.Context) (*client.Plane, error)
	session string
	sent    int64
	in      io.Reader // nil: there is none
	tell    io.Writer
	size    func() (rows, cols int)
	tty     *gen.TerminalSize // as it was created with; nil: it has no terminal

	cancel context.CancelFunc // nil until it was started
	sizes  sync.WaitGroup
}

// start begins to send; a second start does nothing: a client that came back sees the session's start again.
func (f *forwarder) start(ctx context.Context) {
	if f.cancel != nil {
		return
	}
	ctx, f.cancel = context.WithCancel(ctx)
	if f.in == nil {
		return
	}
	plane, err := f.plane(ctx)
	if err != nil {
		fmt.Fprintf(f.tell, "space: nothing can be sent to the command: %v\n", err)
		return
	}
	// A read of a terminal can't be interrupted, so its reader is left behind when the program ends; nothing waits for it.
	go f.input(ctx, plane)
	if f.tty != nil {
		f.sizes.Go(func() { f.resize(ctx, plane) })
	}
}

func (f *forwarder) stop() {
	if f.cancel != nil {
		f.cancel()
	}
	f.sizes.Wait()
}

// input sends stdin until it ends. A session that has ended takes nothing more; its exit says all then.
func (f *forwarder) input(ctx context.Context, plane *client.Plane) {
	sent, err := f.sent, error(nil)
	if sent == unknownOffset {
		sent, err = plane.StdinReceived(ctx, f.session)
	}
	if err == nil {
		_, err = plane.SendStdin(ctx, f.session, sent, f.in, true)
	}
	if err != nil && ctx.Err() == nil && !over(err) {
		fmt.Fprintf(f.tell, "space: the command's input broke off: %v\n", err)
	}
}

// over tells whether an error says that the session has ended, or closed its input.
func over(err error) bool {
	var refused *client.Error
	return errors.As(err, &refused) && (refused.Code == "conflict" || refused.Code == "not_found" || refused.Code == "session_lost" || refused.Code == "execution_lost")
}

// resize tells the session each new size of the terminal; one that is lost is followed by the next. The first may have changed already.
func (f *forwarder) resize(ctx context.Context, plane *client.Plane) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for was := *f.tty; ; {
		if rows, cols := f.size(); rows != was.Rows || cols != was.Cols {
			was.Rows, was.Cols = rows, cols
			plane.Resize(ctx, f.session, rows, cols)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func length(b *[]byte) int64 {
	if b == nil {
		return 0
	}
	return int64(len(*b))
}
