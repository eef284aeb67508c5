package vmmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
	"github.com/space-platform/space/internal/host/vmm"
)

// checkFailedSave saves where there is no room, and for callers who give up. The machine goes on each time, and can be saved elsewhere.
func checkFailedSave(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	g.sh("head -c 8000000 /dev/urandom >/run/random; echo kept >/run/memory")
	small := s.place(t)
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx           context.Context
		state, memory string
		want          error
	}{
		"no room for the memory": {t.Context(), s.place(t), small, unix.ENOSPC},
		"no room for the state":  {t.Context(), small, s.place(t), unix.ENOSPC},
		"given up at once":       {over, s.place(t), s.place(t), context.Canceled},
		"given up soon":          {expiring(t, 3*time.Millisecond), s.place(t), s.place(t), context.DeadlineExceeded},
	} {
		g.pause()
		state, memory := create(t, filepath.Join(c.state, "state")), create(t, filepath.Join(c.memory, "memory"))
		if err := memory.Truncate(s.Shape.MemoryBytes); err != nil {
			t.Fatal(err)
		}
		if c.state == small {
			fill(t, filepath.Join(small, "filler"))
		}
		ctx, cancel := context.WithTimeout(c.ctx, s.patience())
		if _, err := Save(ctx, g, state, memory); !errors.Is(err, c.want) && !(name == "given up soon" && err == nil) { // a fast one
			t.Errorf("%s: the save says %v, want %v", name, err, c.want)
		}
		cancel()
		for _, f := range []*os.File{state, memory} {
			f.Close()
			os.Remove(f.Name())
		}
		if err := g.Resume(s.within(t)); err != nil {
			t.Fatalf("%s: resume: %v", name, err)
		}
		g.greet(false)
		if out := g.sh("cat /run/memory"); out != "kept" {
			t.Errorf("%s: afterwards the machine has %q", name, out)
		}
	}
	sum := g.sh("md5sum </run/random")
	if out := s.load(t, g.save(s.place(t))).sh("md5sum </run/random; cat /run/memory"); out != sum+"\nkept" {
		t.Errorf("a clone has %q, want %s and kept", out, sum)
	}
}

// checkOpenFiles saves a machine again and again, also in vain: its process has no more files open than after the first time. A sandbox may take a snapshot of itself each minute.
func checkOpenFiles(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	first := 0
	for i := range 4 {
		g.pause()
		dir := s.place(t)
		state, memory := create(t, filepath.Join(dir, "lost")), create(t, filepath.Join(dir, "lost.memory"))
		if err := memory.Truncate(s.Shape.MemoryBytes); err != nil {
			t.Fatal(err)
		}
		if _, err := Save(over, g, state, memory); err == nil {
			t.Error("a save worked for whom it was over")
		}
		state.Close()
		memory.Close()
		g.keep(dir)
		g.goOn()
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Handle().PID))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = len(list)
		} else if len(list) > first {
			t.Errorf("after %d saves the machine's process has %d files open, after the first one it had %d", i+1, len(list), first)
		}
	}
}

// expiring is a context that ends soon.
func expiring(t *testing.T, after time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), after)
	t.Cleanup(cancel)
	return ctx
}

// fill takes all room of a small file system.
func fill(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// checkKilledSave kills the machine's process while it's saved: the save says so, unless it was over.
func checkKilledSave(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	g.sh("head -c 8000000 /dev/urandom >/run/random")
	g.pause()
	dir := s.place(t)
	state, memory := create(t, filepath.Join(dir, "state")), create(t, filepath.Join(dir, "memory"))
	defer state.Close()
	defer memory.Close()
	if err := memory.Truncate(s.Shape.MemoryBytes); err != nil {
		t.Fatal(err)
	}
	saved := make(chan error, 1)
	go func() {
		_, err := Save(s.within(t), g, state, memory)
		saved <- err
	}()
	underWay := time.NewTicker(time.Millisecond / 4)
	defer underWay.Stop()
	for info, err := state.Stat(); err == nil && info.Size() == 0; info, err = state.Stat() {
		select {
		case <-underWay.C:
		case err := <-saved:
			t.Fatalf("the save has written no state: %v", err)
		}
	}
	if err := unix.Kill(g.Handle().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-saved; err != nil && !errors.Is(err, vmm.ErrGone) {
		t.Errorf("the save says %v, want ErrGone", err)
	}
	<-g.Done()
	if err := g.Resume(s.within(t)); !errors.Is(err, vmm.ErrGone) {
		t.Errorf("resume says %v, want ErrGone", err)
	}
}

// checkFlood pauses and saves a machine whose guest writes to the link all that is taken, which here is all it can.
func checkFlood(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	stream, err := g.open(s.within(t), &guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: NextID("ses_"), Spec: &sessionv1.Spec{Argv: []string{"sh", "-c", "echo begun; exec yes flood"}, User: "root", Cwd: "/"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Reset(link.CodeCancelled)
	const begun = 1 << 20
	flowing, taken := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(taken)
		for n := uint64(0); ; {
			m, err := receive(t.Context(), stream)
			if err != nil {
				return // the next greeting ends it
			}
			before := n
			n = max(n, m.GetOutput().GetOffset()+uint64(len(m.GetOutput().GetData())))
			if acknowledge(t.Context(), stream, n) != nil {
				return
			}
			if before < begun && n >= begun {
				close(flowing)
			}
		}
	}()
	select {
	case <-flowing:
	case <-taken:
		t.Fatal("the guest's output has ended")
	case <-s.within(t).Done():
		t.Fatal("the guest writes too little")
	}
	for range 2 {
		if err := g.Pause(s.within(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
		dir := s.place(t)
		state, memory := create(t, filepath.Join(dir, "state")), create(t, filepath.Join(dir, "memory"))
		defer state.Close()
		defer memory.Close()
		if err := memory.Truncate(s.Shape.MemoryBytes); err != nil {
			t.Fatal(err)
		}
		if _, err := Save(s.within(t), g, state, memory); err != nil {
			t.Errorf("save: %v", err)
		}
		if err := g.Resume(s.within(t)); err != nil {
			t.Fatalf("resume: %v", err)
		}
	}
	g.greet(false)
	<-taken
	if out := g.sh("echo back"); out != "back" {
		t.Errorf("afterwards the guest said %q", out)
	}
}
