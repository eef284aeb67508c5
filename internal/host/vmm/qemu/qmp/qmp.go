// Package qmp speaks QEMU's monitor protocol over a unix socket: a greeting, then commands with ids and their answers, with events in
// between, a JSON value a line.
//
// QEMU runs guests that aren't trusted, and may have been taken over by one. So its lines are bounded, an answer to nothing is dropped,
// and a call waits no longer than its context. It isn't a general client: it knows the few message forms and no commands.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a conversation.
const (
	MaxLine    = 256 << 10        // bytes of one message from QEMU
	MaxPending = 16               // commands without an answer, those included whose callers have given up
	writeLimit = 10 * time.Second // for a command to be taken by the socket, when the context allows more
)

// ErrClosed is returned when the conversation has ended: QEMU is gone, it broke the protocol, or Close was called.
var ErrClosed = errors.New("the monitor connection is closed")

// ErrBusy is returned when MaxPending commands wait for their answers: QEMU has stopped.
var ErrBusy = errors.New("the monitor doesn't answer")

// Error is QEMU's refusal of a command.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

// Error is QEMU's description.
func (e *Error) Error() string { return fmt.Sprintf("%s (%s)", e.Desc, e.Class) }

// Event is something that happened without being asked for.
type Event struct {
	Name string
	Data json.RawMessage
}

// Client is one conversation. Its methods may be called from any goroutine.
type Client struct {
	conn    *net.UnixConn
	onEvent func(Event)
	reader  sync.WaitGroup
	done    chan struct{} // closed when err is set and nothing more is read

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan message // by command id, until the answer comes
	err     error                   // why the conversation ended

	writing sync.Mutex // held while a command is written
}

// Open takes over a connection, reads the greeting and leaves the negotiation mode; its answer says that QEMU is up. onEvent is called for each event
// in turn and must not block; nil ignores them. The connection is closed when Open fails.
func Open(ctx context.Context, conn *net.UnixConn, onEvent func(Event)) (*Client, error) {
	if onEvent == nil {
		onEvent = func(Event) {}
	}
	c := &Client{conn: conn, onEvent: onEvent, done: make(chan struct{}), pending: map[uint64]chan message{}}
	greeted := make(chan struct{})
	c.reader.Go(func() { c.read(greeted) })
	if err := c.negotiate(ctx, greeted); err != nil {
		c.Close()
		return nil, fmt.Errorf("open the monitor: %w", err)
	}
	return c, nil
}

func (c *Client) negotiate(ctx context.Context, greeted <-chan struct{}) error {
	select {
	case <-greeted:
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.Run(ctx, "qmp_capabilities", nil, nil)
}

// Run executes a command. Arguments and result are JSON structs, nil for none. Errors: an *Error, ErrClosed, ErrBusy, or the cause of the
// context's end, which may end the conversation; the command may then still be executed.
func (c *Client) Run(ctx context.Context, command string, args, result any) error {
	return c.RunWithFile(ctx, command, args, result, nil)
}

// RunWithFile is Run of a command that takes an open file, which QEMU gets a copy of.
func (c *Client) RunWithFile(ctx context.Context, command string, args, result any, f *os.File) error {
	answer, err := c.send(ctx, command, args, f)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	select {
	case m := <-answer:
		err = m.decode(result)
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-c.done:
		err = c.last(answer, result)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// last is what an ended conversation still had for a command.
func (c *Client) last(answer <-chan message, result any) error {
	select {
	case m := <-answer:
		return m.decode(result)
	default:
		return c.Err()
	}
}

type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        uint64 `json:"id"`
}

func (c *Client) send(ctx context.Context, command string, args any, f *os.File) (<-chan message, error) {
	id, answer, err := c.expect()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(request{Execute: command, Arguments: args, ID: id})
	if err != nil {
		c.forget(id)
		return nil, err
	}
	if err := c.write(ctx, append(b, '\n'), f); err != nil {
		c.end(err) // half a command may have been written
		if d, ok := ctx.Deadline(); ok && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(d) {
			return nil, errors.Join(context.DeadlineExceeded, c.Err())
		}
		return nil, c.Err()
	}
	return answer, nil
}

// expect makes a place for an answer.
func (c *Client) expect() (uint64, <-chan message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	if len(c.pending) >= MaxPending {
		return 0, nil, ErrBusy
	}
	c.next++
	answer := make(chan message, 1)
	c.pending[c.next] = answer
	return c.next, answer, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) write(ctx context.Context, b []byte, f *os.File) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline := time.Now().Add(writeLimit)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if f == nil {
		_, err := c.conn.Write(b)
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var werr error
	if err := raw.Control(func(fd uintptr) { n, _, werr = c.conn.WriteMsgUnix(b, unix.UnixRights(int(fd)), nil) }); err != nil {
		return err
	}
	if werr == nil && n < len(b) {
		werr = io.ErrShortWrite
	}
	return werr
}

// read is the reader's goroutine.
func (c *Client) read(greeted chan<- struct{}) {
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(make([]byte, 0, 4096), MaxLine)
	waiting := true
	for lines.Scan() {
		m, err := parse(lines.Bytes())
		switch {
		case err != nil:
			c.end(err)
			return
		case m.kind == greeting && waiting:
			waiting = false
			close(greeted)
		case m.kind == event:
			c.onEvent(m.event)
		case m.kind == answered:
			c.deliver(m)
		}
	}
	c.end(lines.Err())
}

// deliver hands an answer to the command that waits for it; one that nobody waits for is dropped.
func (c *Client) deliver(m message) {
	c.mu.Lock()
	answer := c.pending[m.id]
	delete(c.pending, m.id)
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// end closes the conversation, with the first reason that is given.
func (c *Client) end(reason error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = ErrClosed
		if reason != nil && !errors.Is(reason, net.ErrClosed) {
			c.err = fmt.Errorf("%w: %w", ErrClosed, reason)
		}
		close(c.done)
	}
	c.mu.Unlock()
	c.conn.Close()
}

// Err is why the conversation has ended, nil while it goes on.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the conversation and QEMU runs on. It may be called again.
func (c *Client) Close() error {
	c.end(nil)
	c.reader.Wait()
	return nil
}
