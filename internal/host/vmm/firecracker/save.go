package firecracker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/seal"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/firecracker/api"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// Save writes device state and memory.
//
// Of a loaded machine the memory file must come as a copy of what the machine was loaded from (a reflink costs nothing). Firecracker writes over it
// what the guest has changed since it was loaded, or saved last; at a later save what had changed before is read from outside, unless
// the file is a copy of what was saved last. Of a booted machine the file may be nil if it was booted with one; what it hasn't touched stays a hole, and a later save writes all
// of its memory, with the same exception.
func (m *machine) Save(ctx context.Context, to vmm.Save) (_ vmm.Manifest, finish vmm.Finish, err error) {
	err = m.operate(ctx, "save", func(ctx context.Context) error {
		finish, err = m.save(ctx, to)
		return err
	})
	if err != nil {
		return vmm.Manifest{}, nil, err
	}
	return m.spec.Manifest, finish, nil
}

func (m *machine) save(ctx context.Context, to vmm.Save) (vmm.Finish, error) {
	if err := m.mustBePaused(ctx); err != nil {
		return nil, err
	}
	onLast := to.Earlier != "" && to.Earlier == m.last
	order, lent, err := m.plan(to.State, to.Memory, onLast)
	if err != nil {
		return nil, err
	}
	before := m.saved
	m.last = ""
	if err := m.write(ctx, order, lent); err != nil {
		return nil, err
	}
	m.last = to.Name
	if !before || !m.spec.Loaded || onLast {
		return vmm.Finished, nil
	}
	if m.pager != nil {
		return vmm.Finished, m.copyPresent(ctx, to.Memory)
	}
	t, err := pages.TakeChanged(ctx, m.process.PID(), pages.Memory{Inode: m.spec.Inode, Bytes: m.spec.Manifest.MemoryBytes}, pages.To(to.Memory, to.Earlier != ""), m.held)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (seal.Content, error) {
		_, err := t.Write(ctx)
		return seal.Content{}, err // what Firecracker has written isn't known
	}, nil
}

// mustBePaused asks Firecracker only if this driver hasn't paused the machine itself. Firecracker would refuse to save one that runs, but it resets the
// machine's devices first.
func (m *machine) mustBePaused(ctx context.Context) error {
	if m.paused {
		return nil
	}
	i, err := m.api.Instance(ctx)
	if err != nil {
		return err
	}
	if i.State != api.Paused {
		return errors.New("it isn't paused")
	}
	m.paused = true
	return nil
}

// copyPresent copies what is in a machine's memory that came page by page.
func (m *machine) copyPresent(ctx context.Context, memory *os.File) error {
	regions, err := m.pager.Regions()
	if err != nil {
		return err
	}
	return pages.CopyPresent(ctx, m.process.PID(), regions, memory)
}

// write has Firecracker write a snapshot. Whether it did or not, what it keeps account of has changed.
func (m *machine) write(ctx context.Context, order api.Save, lent map[string]*os.File) error {
	back, err := m.lend(ctx, lent)
	if err != nil {
		return err
	}
	m.saved = true
	err = m.api.Save(ctx, order)
	m.reset = m.reset || err == nil
	return errors.Join(err, back())
}

// plan says what Firecracker is to write, and which files it needs for that. The memory is a copy of what it wrote last, or it isn't.
func (m *machine) plan(state, memory *os.File, onLast bool) (api.Save, map[string]*os.File, error) {
	order := api.Save{Type: api.Diff, State: savedStatePath, Memory: memoryPath}
	lent := map[string]*os.File{savedStatePath: state}
	if m.saved && !m.spec.Loaded && !onLast {
		order.Type = api.Full
	}
	if memory != nil {
		order.Memory, lent[savedMemoryPath] = savedMemoryPath, memory
		return order, lent, m.prepare(memory, m.spec.Loaded || onLast)
	}
	if m.spec.Loaded {
		return order, nil, errors.New("the machine was loaded: what it changed needs a file")
	}
	if !m.spec.OwnFile {
		return order, nil, errors.New("the machine was booted without a memory file: its memory needs one")
	}
	return order, lent, nil
}

// prepare sees to it that pages which aren't written are in the file already: those that it's a copy of, or none.
func (m *machine) prepare(memory *os.File, aCopy bool) error {
	if !aCopy {
		return errors.Join(memory.Truncate(0), memory.Truncate(m.spec.Manifest.MemoryBytes))
	}
	info, err := memory.Stat()
	if err != nil {
		return err
	}
	if want := m.spec.Manifest.MemoryBytes; info.Size() != want {
		return fmt.Errorf("the memory's file has %d bytes, want a copy of what was loaded: %d", info.Size(), want)
	}
	return nil
}

// lend gives Firecracker files, which are its user's as long as it has them.
func (m *machine) lend(ctx context.Context, lent map[string]*os.File) (back func() error, err error) {
	var undo []func() error
	back = func() (err error) {
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
		return err
	}
	for _, f := range lent {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			return nil, errors.Join(err, back())
		}
		uid := m.process.UID()
		if err := f.Chown(uid, uid); err != nil {
			return nil, errors.Join(err, back())
		}
		undo = append(undo, func() error { return f.Chown(int(st.Uid), int(st.Gid)) })
	}
	take, err := m.starter.Lend(ctx, m.Handle(), lent)
	if err != nil {
		return nil, errors.Join(err, back())
	}
	undo = append(undo, take)
	return back, nil
}
