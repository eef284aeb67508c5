package pager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// The names in an enclosure's directory.
const (
	socketName = "pages.sock"
	reportName = "pages.json"
)

// programPath is where the program is in the pager's root directory.
const programPath = "/vmm/space"

// endNotice is how long a VMM may take to be gone after it has let go of its pager, as it does when it ends.
const endNotice = time.Second

// Order says what a pager is to serve.
type Order struct {
	Program    string // path of a program that calls Main for Subcommand, linked statically
	Memory     string // the snapshot's memory file
	WorkingSet string // path of the snapshot's working set, which is read, or recorded if there is none; "" for none
	Snapshot   string // what names the snapshot: a working set is good for one
}

// Pager is a pager's process, seen from outside. Its methods may be called from any goroutine.
type Pager struct {
	process *monitor.Process
	said    *monitor.Said // nil if another life of the daemon started it
	dir     string
}

// Start starts a pager in an enclosure. Its VMM, started in the same one, is to connect to Socket within a minute. bootID is the host's.
func Start(ctx context.Context, e vmm.Enclosure, bootID string, o Order) (*Pager, error) {
	p, err := start(ctx, e, bootID, o)
	if err != nil {
		return nil, fmt.Errorf("start the pager of machine %s: %w", e.ID, err)
	}
	return p, nil
}

func start(ctx context.Context, e vmm.Enclosure, bootID string, o Order) (*Pager, error) {
	memory, err := os.Open(o.Memory)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	info, err := memory.Stat()
	if err != nil {
		return nil, err
	}
	listener, err := listen(filepath.Join(e.Dir, socketName), e.UID)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	out, err := os.OpenFile(filepath.Join(e.Dir, reportName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := vmm.Command{
		Path: programPath, Bind: map[string]vmm.Source{programPath: {Path: o.Program, Executable: true}},
		Args:  []string{Subcommand, "--memory", strconv.FormatInt(info.Size(), 10), "--snapshot", o.Snapshot},
		Files: []*os.File{memory, listener, out}, FileBytes: int64(maxSet),
	}
	set, record := openSet(o.WorkingSet, o.Snapshot, info.Size())
	if set != nil {
		defer set.Close()
		c.Files, c.Args = append(c.Files, set), append(c.Args, "--prefetch")
	}
	if record != nil {
		defer record.Close()
		c.Files, c.Args = append(c.Files, record), append(c.Args, "--record")
	}
	return run(ctx, e, bootID, c)
}

// run executes the program. What it prints must never break: it would be ended by that.
func run(ctx context.Context, e vmm.Enclosure, bootID string, c vmm.Command) (*Pager, error) {
	said, log, err := monitor.NewLastingSaid()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.Log = log
	p, err := e.Starter.Start(ctx, c)
	if err != nil {
		said.Close()
		return nil, err
	}
	return &Pager{process: monitor.Adopt(p, e.UID, bootID), said: said, dir: e.Dir}, nil
}

// listen makes the socket. It's listened to at once: the VMM may come before the pager is there.
func listen(path string, uid int) (*os.File, error) {
	f, err := monitor.Bind(path)
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.Chown(path, uid, uid), unix.Listen(int(f.Fd()), 1))
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return f, nil
}

// Find finds a pager that another life of the daemon started; vmm.ErrGone if it has ended.
func Find(e vmm.Enclosure, h vmm.Handle) (*Pager, error) {
	p, err := monitor.Find(h)
	if err != nil {
		return nil, fmt.Errorf("find the pager of machine %s: %w", e.ID, err)
	}
	return &Pager{process: p, dir: e.Dir}, nil
}

// Socket is the host's path of the socket that the VMM is to connect to, once.
func (p *Pager) Socket() string { return filepath.Join(p.dir, socketName) }

// Handle finds the pager again.
func (p *Pager) Handle() vmm.Handle { return p.process.Handle(Subcommand, nil) }

// Done is closed when the pager is gone.
func (p *Pager) Done() <-chan struct{} { return p.process.Done() }

// Regions says where the VMM has its memory.
func (p *Pager) Regions() ([]pages.Region, error) {
	r, err := readReport(filepath.Join(p.dir, reportName))
	if err == nil && len(r.Regions) == 0 {
		err = errors.New("its monitor hasn't said so")
	}
	if err != nil {
		return nil, fmt.Errorf("find a machine's memory: %w", err)
	}
	return r.Regions, nil
}

// Why says why a pager that is gone has ended: wrapped in vmm.ErrPages, or nil if its VMM has ended before, or is about to. ended is closed when that
// is gone.
func (p *Pager) Why(ended <-chan struct{}) error {
	return why(p.dir, p.said, ended)
}

// WhyGone is Why for a pager that was gone before it could be found.
func WhyGone(e vmm.Enclosure, ended <-chan struct{}) error { return why(e.Dir, nil, ended) }

func why(dir string, said *monitor.Said, ended <-chan struct{}) error {
	r, err := readReport(filepath.Join(dir, reportName))
	switch {
	case err != nil:
		return fmt.Errorf("%w: its pager has ended, and left no report: %w", vmm.ErrPages, err)
	case r.Failed != "":
		return fmt.Errorf("%w: %s", vmm.ErrPages, r.Failed)
	case !r.Ended:
		words := ""
		if said != nil {
			words = ": " + said.Drain()
		}
		return fmt.Errorf("%w: its pager has ended unexpectedly%s", vmm.ErrPages, words)
	}
	t := time.NewTimer(endNotice)
	defer t.Stop()
	select {
	case <-ended:
		return nil
	case <-t.C:
		return fmt.Errorf("%w: its monitor let go of its pager", vmm.ErrPages)
	}
}

// Kill ends the pager and returns when it's gone; it may be gone already.
func (p *Pager) Kill(ctx context.Context) error {
	if err := p.process.Kill(ctx); err != nil {
		return fmt.Errorf("end a machine's pager: %w", err)
	}
	return nil
}

// Close lets go of the pager, which goes on.
func (p *Pager) Close() error {
	if p.said != nil {
		p.said.Close()
	}
	return p.process.Close()
}
