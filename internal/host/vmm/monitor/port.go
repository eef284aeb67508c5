package monitor

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Port is the socket behind which a VMM has its guest's link port. It takes one client at a time. Its methods may be called from any
// goroutine.
type Port struct {
	dial func(context.Context) (net.Conn, error)
	turn chan struct{} // held by the Dial that is under way

	mu     sync.Mutex
	conn   net.Conn // the last Dial's
	closed bool
}

// Port returns the port whose socket is at a path.
func (p *Process) Port(path string) *Port {
	return NewPort(func(ctx context.Context) (net.Conn, error) { return p.Dial(ctx, path) })
}

// NewPort returns a port to which dial makes a connection.
func NewPort(dial func(context.Context) (net.Conn, error)) *Port {
	return &Port{dial: dial, turn: make(chan struct{}, 1)}
}

// Dial ends the connection before and makes a new one. One comes after the other: were several to connect at once, the VMM might serve the one that stays
// while those that were ended fill its queue, and nobody else would come in.
func (p *Port) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("dial the guest: %w", context.Cause(ctx))
	}
	if err := p.replace(nil); err != nil {
		return nil, err
	}
	c, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.replace(c); err != nil { // the port was closed meanwhile
		c.Close()
		return nil, err
	}
	return c, nil
}

// replace ends the connection that is there.
func (p *Port) replace(c net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("dial the guest: %w", net.ErrClosed)
	}
	if p.conn != nil {
		p.conn.Close()
	}
	p.conn = c
	return nil
}

// Close ends the connection, and no other is made. It may be called again.
func (p *Port) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}
}
