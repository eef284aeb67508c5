package firecracker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

const (
	knockFirst   = 2 * time.Millisecond // from the first try to the second; doubled each time
	knockSlowest = 50 * time.Millisecond
	// knockLimit bounds one try. Firecracker gives a guest two seconds to answer.
	knockLimit = 3 * time.Second
	// maxGreeting bounds the line with which Firecracker says that the guest has answered.
	maxGreeting = 32
)

// errNobody says that nobody listens in the guest: it's booting, or its agent is gone.
var errNobody = errors.New("nobody listens on the guest's port")

// dialPort connects to the agent. Firecracker ends a connection for which nobody listens in the guest, so it's tried until the context ends, or
// the machine.
func dialPort(ctx context.Context, p *monitor.Process) (net.Conn, error) {
	for wait := knockFirst; ; wait = min(2*wait, knockSlowest) {
		c, err := knock(ctx, p)
		switch {
		case err == nil:
			return c, nil
		case p.Gone():
			return nil, vmm.ErrGone
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case !errors.Is(err, errNobody):
			return nil, err
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-p.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// dialPortTwice connects to the agent where a guest that was just loaded may still end all its connections (see awaitsReset). The first one shows that the
// guest has taken up the interrupt with which that was announced; the second one comes after what it does then.
func dialPortTwice(ctx context.Context, p *monitor.Process) (net.Conn, error) {
	first, err := dialPort(ctx, p)
	if err != nil {
		return nil, err
	}
	first.Close()
	return dialPort(ctx, p)
}

// knock tries once.
func knock(ctx context.Context, p *monitor.Process) (net.Conn, error) {
	c, err := p.DialWithin(ctx, linkSocket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, knockLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
	err = introduce(c)
	if !stop() || err != nil {
		c.Close()
		return nil, errors.Join(errNobody, err)
	}
	return c, nil
}

// introduce asks for the guest's port. What follows the answer's line is the guest's, so it's read byte by byte.
func introduce(c net.Conn) error {
	if _, err := fmt.Fprintf(c, "CONNECT %d\n", link.VsockPort); err != nil {
		return err
	}
	var line [maxGreeting]byte
	for i := range line {
		if _, err := c.Read(line[i : i+1]); err != nil {
			return err
		}
		if line[i] == '\n' {
			if !bytes.HasPrefix(line[:i], []byte("OK ")) {
				return fmt.Errorf("Firecracker says %q", line[:i])
			}
			return nil
		}
	}
	return fmt.Errorf("Firecracker says %q", line[:])
}
