package qemu

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// hangUpLimit is how long QEMU has to notice that a connection to its guest's port has ended, which takes it a millisecond.
const hangUpLimit = time.Second

// connection is one to a guest's port, which is ended so that QEMU loses nothing. Its port, as of version 10.0, takes no notice of a connection that ends while
// the machine is stopped; and if the guest writes something just then it holds that back for ever, over all connections that come, until one ends while the machine runs. So the
// writing half is ended first, and what comes is read, until QEMU has ended the other one.
type connection struct {
	*net.UnixConn
	still  func() bool // tells whether the machine is stopped: QEMU wouldn't notice
	once   sync.Once
	ending atomic.Bool
	over   chan struct{} // closed when both have ended it
}

func newConnection(c *net.UnixConn, still func() bool) *connection {
	return &connection{UnixConn: c, still: still, over: make(chan struct{})}
}

// Close ends the connection, within hangUpLimit. It doesn't wait; whoever reads may go on until then.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.ending.Store(true)
		if c.still() || c.CloseWrite() != nil {
			c.UnixConn.Close()
			close(c.over)
			return
		}
		go c.drain()
	})
	return nil
}

func (c *connection) drain() {
	defer close(c.over)
	c.SetReadDeadline(time.Now().Add(hangUpLimit))
	io.Copy(io.Discard, c.UnixConn)
	c.UnixConn.Close()
}

// settle waits until a connection that is being ended has ended, or ctx.
func (c *connection) settle(ctx context.Context) {
	if c == nil || !c.ending.Load() {
		return
	}
	select {
	case <-c.over:
	case <-ctx.Done():
	}
}
