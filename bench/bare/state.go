package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/host/vmm/pages"
)

// maxHeld is the memory for pages that are read while a machine stands still, as the platform has it.
const maxHeld = 384 << 20

// states is a life in which a machine is forked some times, suspended and restored. A fork is a picture of the machine, which goes on, and the next one
// loaded from it, with a first command; nothing of it is synced. A suspend ends with the picture's files and their directory synced and the machine gone.
func (b *bare) states(s *samples) error {
	return b.live(b.places[0], false, func(ctx context.Context, _ float64, m *machine) error {
		if err := echo(ctx, m.link, "ses_bare"); err != nil {
			return err
		}
		if err := m.fill(ctx, b.fill); err != nil {
			return err
		}
		held := pages.NewBuffer(maxHeld)
		for range b.forks {
			if err := b.fork(ctx, m, held, s); err != nil {
				return fmt.Errorf("fork: %w", err)
			}
		}
		return b.suspend(ctx, m, held, s)
	})
}

// fill runs a command that takes memory, and goes on when it has it.
func (m *machine) fill(ctx context.Context, command string) error {
	if command == "" {
		return nil
	}
	stream, err := call(ctx, m.link, &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: "ses_barefill", Spec: &sessionv1.Spec{Argv: []string{"/bin/sh", "-c", command}},
	}}})
	if err != nil {
		return err
	}
	said := ""
	for !strings.Contains(said, "full") {
		f := new(guestv1.FromSession)
		if err := receive(ctx, stream, f); err != nil {
			return err
		}
		if e := f.GetExit(); e != nil {
			return fmt.Errorf("fill the memory: %v after %q", e, said)
		}
		said += string(f.GetOutput().GetData())
	}
	return nil
}

// fork takes a picture of a machine, lets it go on, and loads another one from the picture.
func (b *bare) fork(ctx context.Context, m *machine, held *pages.Buffer, s *samples) error {
	dir, err := os.MkdirTemp(b.scratch, "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	p, err := m.stand(ctx, dir, true, held)
	if err != nil {
		return err
	}
	if err := m.goOn(ctx); err != nil {
		return errors.Join(err, p.write(ctx, false))
	}
	s.ForkPause = append(s.ForkPause, since(p.began))
	if err := p.write(ctx, false); err != nil {
		return err
	}
	if err := b.loadAndEcho(ctx, p.dir, b.places[1]); err != nil {
		return err
	}
	s.ForkFirstExec = append(s.ForkFirstExec, since(began))
	return nil
}

// suspend takes a picture of a machine, makes it durable, and ends the machine; then it restores it.
func (b *bare) suspend(ctx context.Context, m *machine, held *pages.Buffer, s *samples) error {
	dir, err := os.MkdirTemp(b.scratch, "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	p, err := m.stand(ctx, dir, false, held)
	if err != nil {
		return err
	}
	if err := p.write(ctx, true); err != nil {
		return err
	}
	m.end()
	s.Suspend = append(s.Suspend, since(began))
	began = time.Now()
	if err := b.loadAndEcho(ctx, p.dir, b.places[0]); err != nil {
		return err
	}
	s.RestoreExec = append(s.RestoreExec, since(began))
	return nil
}

// loadAndEcho loads a machine from a picture, which it maps, and runs a command.
func (b *bare) loadAndEcho(ctx context.Context, picture string, p place) error {
	dir, err := os.MkdirTemp(b.scratch, "bare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	memory, err := os.OpenFile(filepath.Join(picture, "mem.img"), os.O_RDWR, 0) // QEMU before 8.2 insists on it
	if err != nil {
		return err
	}
	defer memory.Close()
	m, err := b.load(ctx, image{picture, memory}, dir, p, false)
	if err != nil {
		return err
	}
	defer m.end()
	return echo(ctx, m.link, "ses_bareloaded")
}

// picture is a machine's files, whose memory is whole once write has returned.
type picture struct {
	dir    string
	began  time.Time // when the machine began to stand still
	memory *os.File
	taken  *pages.Taken
}

// stand has a machine stand still and saves it into a directory. Of one that goes on nothing is written out before: memory and disk are of one moment.
func (m *machine) stand(ctx context.Context, dir string, goesOn bool, held *pages.Buffer) (*picture, error) {
	if err := clone(filepath.Join(m.from.dir, "mem.img"), filepath.Join(dir, "mem.img")); err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(filepath.Join(dir, "mem.img"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	p := &picture{dir: dir, memory: memory, began: time.Now()}
	if p.taken, err = m.save(ctx, p, goesOn, held); err != nil {
		memory.Close()
		return nil, err
	}
	return p, nil
}

func (m *machine) save(ctx context.Context, p *picture, goesOn bool, held *pages.Buffer) (*pages.Taken, error) {
	if err := m.rest(ctx, goesOn); err != nil {
		return nil, fmt.Errorf("come to rest: %w", err)
	}
	m.unlink()
	mon, err := m.monitor(ctx)
	if err != nil {
		return nil, err
	}
	defer mon.Close()
	if _, err := mon.ask("stop", nil); err != nil {
		return nil, err
	}
	if _, err := mon.ask("xen-save-devices-state", map[string]any{"filename": filepath.Join(p.dir, "state.bin"), "live": false}); err != nil {
		return nil, err
	}
	if err := clone(filepath.Join(m.dir, "disk.img"), filepath.Join(p.dir, "disk.img")); err != nil {
		return nil, err
	}
	var of unix.Stat_t
	if err := unix.Fstat(int(m.from.memory.Fd()), &of); err != nil {
		return nil, err
	}
	return pages.TakeChanged(ctx, m.qemu.Process.Pid, pages.Memory{Inode: of.Ino, Bytes: of.Size}, p.memory, held)
}

// rest has the guest's processes stand still; its files are written out, unless the machine goes on.
func (m *machine) rest(ctx context.Context, goesOn bool) error {
	s, err := call(ctx, m.link, &guestv1.Call{Call: &guestv1.Call_Quiesce{Quiesce: &guestv1.Quiesce{FreezeOnly: goesOn}}})
	if err != nil {
		return err
	}
	return receive(ctx, s, new(guestv1.Quiesced))
}

// goOn lets a machine run on, and returns when its processes do.
func (m *machine) goOn(ctx context.Context) error {
	mon, err := m.monitor(ctx)
	if err != nil {
		return err
	}
	defer mon.Close()
	if _, err := mon.ask("cont", nil); err != nil {
		return err
	}
	return m.greet(ctx, false)
}

// write makes the memory whole, and all files durable if asked to.
func (p *picture) write(ctx context.Context, durable bool) error {
	_, err := p.taken.Write(ctx)
	if err = errors.Join(err, p.memory.Close()); err != nil || !durable {
		return err
	}
	for _, name := range []string{"mem.img", "state.bin", "disk.img", "."} {
		f, err := os.Open(filepath.Join(p.dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
