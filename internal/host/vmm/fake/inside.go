package fake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/proc"
)

// Serve is an agent: it serves a guest's link on a listener until ctx ends, and then ends what it started.
type Serve func(ctx context.Context, l net.Listener) error

// Inside is a driver whose machines cost next to nothing: each is an agent inside this process. They end with the process, so there's nothing to
// recover. A machine that is paused takes no new link; one that it has goes on.
type Inside struct {
	serve Serve
	self  proc.ID
}

var _ vmm.Driver = (*Inside)(nil)

// NewInside makes the driver.
func NewInside(serve Serve) (*Inside, error) {
	self, err := proc.Read(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("make the fake driver: %w", err)
	}
	return &Inside{serve: serve, self: self}, nil
}

// Name is "fake", as of those with a process.
func (d *Inside) Name() string { return Name }

// Capabilities are those of the fake.
func (d *Inside) Capabilities() vmm.Capabilities { return (*Driver)(nil).Capabilities() }

// Boot starts an agent.
func (d *Inside) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	if err := checkFiles(b.Shape, b.Memory, []string{b.Kernel, b.Initrd, b.Disk}); err != nil {
		return nil, fmt.Errorf("boot machine %s: %w", e.ID, err)
	}
	return d.start(ctx, e, b.Shape)
}

// Load starts an agent.
func (d *Inside) Load(ctx context.Context, e vmm.Enclosure, l vmm.Load) (vmm.Machine, error) {
	if err := checkLoad(l); err != nil {
		return nil, fmt.Errorf("load machine %s: %w", e.ID, err)
	}
	return d.start(ctx, e, l.Shape)
}

// Recover finds nothing: a machine of another life of the daemon has ended with it, and one of this life needn't be found.
func (d *Inside) Recover(_ context.Context, e vmm.Enclosure, _ vmm.Handle) (vmm.Machine, error) {
	return nil, fmt.Errorf("recover machine %s: %w", e.ID, vmm.ErrGone)
}

func (d *Inside) start(ctx context.Context, e vmm.Enclosure, s vmm.Shape) (vmm.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start machine %s: %w", e.ID, err)
	}
	m := &inside{driver: d, id: e.ID, uid: e.UID, shape: s, socket: newSocket(), done: make(chan struct{}), running: make(chan struct{})}
	close(m.running)
	m.port = monitor.NewPort(m.connect)
	life, end := context.WithCancel(context.Background()) // until Kill, or the end of the process
	m.end = end
	go func() {
		defer close(m.done)
		_ = d.serve(life, m.socket) // which has no reason but the end
		m.socket.Close()
	}()
	return m, nil
}

// inside implements vmm.Machine.
type inside struct {
	driver *Inside
	id     string
	uid    int
	shape  vmm.Shape
	socket *socket
	port   *monitor.Port
	done   chan struct{}
	end    context.CancelFunc

	mu      sync.Mutex
	running chan struct{} // closed while it isn't paused
}

// Handle is that of this process.
func (m *inside) Handle() vmm.Handle {
	self := m.driver.self
	return vmm.Handle{Driver: Name, PID: self.PID, StartTime: self.StartTime, BootID: self.BootID, UID: m.uid}
}

// DialGuest connects to the agent.
func (m *inside) DialGuest(ctx context.Context) (net.Conn, error) {
	c, err := m.port.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial the guest of %s: %w", m.id, err)
	}
	return c, nil
}

func (m *inside) connect(ctx context.Context) (net.Conn, error) {
	m.mu.Lock()
	running := m.running
	m.mu.Unlock()
	select {
	case <-running:
		return m.socket.dial(ctx)
	case <-m.socket.closed:
		return nil, vmm.ErrGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Pause lets no new link in.
func (m *inside) Pause(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone() {
		return fmt.Errorf("pause machine %s: %w", m.id, vmm.ErrGone)
	}
	if !m.paused() {
		m.running = make(chan struct{})
	}
	return nil
}

// Resume lets links in again.
func (m *inside) Resume(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone() {
		return fmt.Errorf("resume machine %s: %w", m.id, vmm.ErrGone)
	}
	if m.paused() {
		close(m.running)
	}
	return nil
}

// paused tells what Pause has done. mu is held.
func (m *inside) paused() bool {
	select {
	case <-m.running:
		return false
	default:
		return true
	}
}

func (m *inside) gone() bool {
	select {
	case <-m.socket.closed:
		return true
	default:
		return false
	}
}

// Save writes a state file that says nothing.
func (m *inside) Save(_ context.Context, to vmm.Save) (vmm.Manifest, vmm.Finish, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := vmm.ErrGone
	switch {
	case m.gone():
	case !m.paused():
		err = errRunning
	default:
		err = writeState(to.State)
	}
	if err != nil {
		return vmm.Manifest{}, nil, fmt.Errorf("save machine %s: %w", m.id, err)
	}
	return manifest(m.shape), vmm.Finished, nil
}

// Kill ends the agent.
func (m *inside) Kill(ctx context.Context) error {
	m.socket.Close()
	m.end()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill machine %s: %w", m.id, context.Cause(ctx))
	}
}

// Done is closed when the agent has ended.
func (m *inside) Done() <-chan struct{} { return m.done }

// LastWords are none.
func (m *inside) LastWords() string { return "" }

// Err is nil: nothing makes this driver end a machine.
func (m *inside) Err() error { return nil }

// Close lets go of the machine.
func (m *inside) Close() error {
	m.port.Close()
	return nil
}

// socket is a listener inside this process.
type socket struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newSocket() *socket { return &socket{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (s *socket) dial(ctx context.Context) (net.Conn, error) {
	host, guest := net.Pipe()
	select {
	case s.conns <- guest:
		return host, nil
	case <-s.closed:
		return nil, vmm.ErrGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept waits for a host.
func (s *socket) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends the listener. It may be called again.
func (s *socket) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr is nowhere.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

// checkLoad refuses a snapshot that isn't one of the fake's.
func checkLoad(l vmm.Load) error {
	if here := manifest(l.Shape); !same(l.Manifest, here) {
		return fmt.Errorf("%w: its manifest is %+v, want %+v", vmm.ErrIncompatible, l.Manifest, here)
	}
	return errors.Join(checkState(l.State), checkFiles(l.Shape, l.Memory, []string{l.Disk}))
}
