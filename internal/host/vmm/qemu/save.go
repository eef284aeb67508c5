package qemu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/pages"
	"github.com/space-platform/space/internal/host/vmm/qemu/qmp"
)

// Save writes device state and memory.
//
// Of a loaded machine only the pages that the guest has changed since are written over the copy of what it was loaded from. They are read while it
// stands still, and written by Finish as far as the driver may hold them (see maxHeld). Of a booted machine it may be nil; any other file gets a full copy, shared with the
// original where the file system can.
func (m *machine) Save(ctx context.Context, to vmm.Save) (_ vmm.Manifest, finish vmm.Finish, err error) {
	err = m.exclusively(ctx, func(q *qmp.Client) error {
		s, err := status(ctx, q)
		if err != nil {
			return err
		}
		if s == "running" || s == "inmigrate" {
			return errors.New("it isn't paused")
		}
		m.lent = true
		if err := saveState(ctx, q, to.State); err != nil {
			return fmt.Errorf("device state: %w", err)
		}
		if finish, err = m.saveMemory(ctx, to); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
		return nil
	})
	if err != nil {
		return vmm.Manifest{}, nil, fmt.Errorf("save machine %s: %w", m.spec.ID, m.explain(err))
	}
	return m.spec.Manifest, finish, nil
}

// stateBytes is more than any device state has: one of all our devices has 200 KB.
const stateBytes = 1 << 20

// saveState lets QEMU write its device state into an open file. It takes a file that is open for writing only, so it gets a
// descriptor of its own, which has an offset of its own as well; QEMU keeps its copy, see closeLent.
func saveState(ctx context.Context, q *qmp.Client, f *os.File) error {
	w, err := reopen(f)
	if err != nil {
		return err
	}
	defer w.Close()
	var set struct {
		ID int `json:"fdset-id"`
	}
	if err := q.RunWithFile(ctx, "add-fd", nil, &set, w); err != nil {
		return err
	}
	err = q.Run(ctx, "xen-save-devices-state", map[string]any{"filename": fmt.Sprintf("/dev/fdset/%d", set.ID), "live": false}, nil)
	if err != nil { // QEMU doesn't say why, but the file system would
		err = errors.Join(err, unix.Fallocate(int(w.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, stateBytes))
	}
	return err
}

// maxLent is how many files QEMU is made to close at once. There is one for each save since the machine ran last.
const maxLent = 64

// closeLent closes QEMU's copies of the files that states were saved into, as long as there may be some. QEMU does that only while the machine runs.
func (m *machine) closeLent(ctx context.Context, q *qmp.Client) {
	if !m.lent {
		return
	}
	var sets []struct {
		ID int `json:"fdset-id"`
	}
	err := q.Run(ctx, "query-fdsets", nil, &sets)
	for _, s := range sets[:min(len(sets), maxLent)] {
		err = errors.Join(err, q.Run(ctx, "remove-fd", map[string]any{"fdset-id": s.ID}, nil))
	}
	if err != nil {
		slog.WarnContext(ctx, "QEMU keeps files open that a state was saved into", "machine", m.spec.ID, "err", err)
		return
	}
	m.lent = len(sets) > maxLent
}

// reopen opens an open file once more, emptied and for writing.
func reopen(f *os.File) (w *os.File, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	cerr := raw.Control(func(fd uintptr) {
		w, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_WRONLY|os.O_TRUNC, 0)
	})
	return w, errors.Join(cerr, err)
}

func (m *machine) saveMemory(ctx context.Context, to vmm.Save) (vmm.Finish, error) {
	f := to.Memory
	switch {
	case m.spec.Private && f == nil:
		return nil, errors.New("the machine was loaded: what it changed needs a file")
	case m.spec.Private:
		t, err := pages.TakeChanged(ctx, m.process.PID(), pages.Memory{Inode: m.spec.Memory.Inode, Bytes: m.spec.Memory.Bytes}, pages.To(f, to.Earlier != ""), m.held)
		if err != nil {
			return nil, err
		}
		return t.Write, nil
	case f == nil && m.spec.Memory.FD != 0:
		return nil, errors.New("the machine was booted without a memory file: its memory needs one")
	case f == nil:
		return vmm.Finished, nil
	}
	src, err := m.spec.Memory.open(m.process.PID())
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if to.Earlier != "" {
		return copySparingly(ctx, src, f, m.spec.Memory.Bytes)
	}
	return vmm.Finished, copyWhole(ctx, src, f, m.spec.Memory.Bytes)
}
