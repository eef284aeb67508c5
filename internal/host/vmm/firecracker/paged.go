package firecracker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/pager"
)

// pagesPath is where Firecracker finds the pager's socket.
const pagesPath = "/vm/pages.sock"

// devicesPath is where the jailer looks for the number of the device that it makes for Firecracker.
const devicesPath = "/proc/misc"

// startPager starts the pager of a machine that is to be loaded.
func (d *Driver) startPager(ctx context.Context, e vmm.Enclosure, l vmm.Load) (*pager.Pager, error) {
	if !d.Capabilities().PagedMemory {
		return nil, fmt.Errorf("memory can't come page by page: %w", pager.ErrUnavailable)
	}
	return pager.Start(ctx, e, d.bootID, pager.Order{
		Program: d.config.Pager, Memory: l.Memory, WorkingSet: l.Pages.WorkingSet, Snapshot: l.Pages.Snapshot,
	})
}

// bindPager adds what Firecracker and its jailer need for a pager.
func bindPager(e vmm.Enclosure, p *pager.Pager, bind map[string]vmm.Source) (list map[string]vmm.Source, err error) {
	bind[pagesPath] = vmm.Source{Path: p.Socket()}
	var device unix.Stat_t
	if err := unix.Stat(pager.Device, &device); errors.Is(err, unix.ENOENT) {
		return nil, nil // an ordinary user may make one without it
	} else if err != nil {
		return nil, fmt.Errorf("look at %s: %w", pager.Device, err)
	}
	path := filepath.Join(e.Dir, "misc")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d userfaultfd\n", unix.Minor(device.Rdev)), 0o444); err != nil {
		return nil, err
	}
	return map[string]vmm.Source{devicesPath: {Path: path}}, nil
}

// backend is where Firecracker has a loaded machine's memory from.
func backend(s spec) api.Memory {
	if s.Pager != nil {
		return api.Memory{Type: "Uffd", Path: pagesPath}
	}
	return api.Memory{Type: "File", Path: memoryPath}
}

// dismiss ends a pager, if there is one, that has no machine.
func dismiss(ctx context.Context, p *pager.Pager) error {
	if p == nil {
		return nil
	}
	return errors.Join(p.Kill(context.WithoutCancel(ctx)), p.Close())
}

// attend makes a pager the machine's, if it has one, and begins to watch for its end.
func (m *machine) attend(p *pager.Pager) {
	if p != nil {
		m.pager = p
		m.reporter.Go(m.guard)
	}
}

// guard ends the machine when its pager has, for which it would wait for ever.
func (m *machine) guard() {
	select {
	case <-m.pager.Done():
	case <-m.released:
		return
	}
	err := m.pager.Why(m.process.Done())
	m.mu.Lock()
	if m.killed || err == nil {
		m.mu.Unlock()
		return
	}
	m.fate = err
	m.mu.Unlock()
	slog.Error("a machine is ended", "machine", m.spec.ID, "why", err)
	if err := m.process.Kill(context.Background()); err != nil {
		slog.Error("a machine without its memory can't be ended", "machine", m.spec.ID, "err", err)
	}
}

// Err is what made the driver end the machine.
func (m *machine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fate
}

// recoverPager finds a machine's pager again. Without it the machine is ended.
func recoverPager(ctx context.Context, e vmm.Enclosure, p *monitor.Process, h vmm.Handle) (*pager.Pager, error) {
	found, err := pager.Find(e, h)
	if !errors.Is(err, vmm.ErrGone) {
		return found, err
	}
	err = errors.Join(vmm.ErrGone, pager.WhyGone(e, p.Done()))
	return nil, errors.Join(err, p.Kill(ctx))
}
