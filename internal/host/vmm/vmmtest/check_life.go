package vmmtest

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/space-platform/space/internal/proc"
)

func checkBoot(t *testing.T, s *suite) {
	g := s.boot(t)
	g.greet(true)
	if out := g.sh("echo hello"); out != "hello" {
		t.Errorf("the guest said %q, want hello", out)
	}
	h := g.Handle()
	if id, err := proc.Read(h.PID); err != nil || id.StartTime != h.StartTime || id.BootID != h.BootID {
		t.Errorf("the handle %+v names another process than %+v (%v)", h, id, err)
	}
	if h.Driver != s.Driver.Name() || h.UID != g.e.UID {
		t.Errorf("the handle %+v has another driver or uid", h)
	}
}

// checkSaveAndLoad makes the snapshot that the checks after it load.
func checkSaveAndLoad(t *testing.T, s *suite) {
	g := s.boot(t)
	g.greet(true)
	if s.Virtual {
		g.sh("echo base >/root/file; echo base >/run/memory")
	}
	s.base = g.save(s.place(s.root))
	if m := s.base.manifest; m.Driver != s.Driver.Name() || m.VCPUs != s.Shape.VCPUs || m.MemoryBytes != s.Shape.MemoryBytes {
		t.Errorf("manifest %+v", m)
	}
	if err := g.Kill(s.within(t)); err != nil {
		t.Fatal(err)
	}
	c := s.load(t, s.base)
	if out := c.sh("echo again"); out != "again" {
		t.Errorf("the clone said %q, want again", out)
	}
}

func checkPauseResume(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	for range 2 {
		if err := g.Pause(s.within(t)); err != nil {
			t.Fatalf("pause: %v", err)
		}
	}
	for range 2 {
		if err := g.Resume(s.within(t)); err != nil {
			t.Fatalf("resume: %v", err)
		}
	}
	if !s.Driver.Capabilities().PauseKeepsLink {
		g.greet(false)
	}
	if out := g.sh("echo back"); out != "back" {
		t.Errorf("after the pause the guest said %q, want back", out)
	}
}

func checkConcurrent(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	ctx := s.within(t)
	atOnce := func(calls map[string]func() error) {
		var all sync.WaitGroup
		for range 4 {
			for name, call := range calls {
				all.Go(func() {
					if err := call(); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
		}
		all.Wait()
	}
	atOnce(map[string]func() error{
		"pause":  func() error { return g.Pause(ctx) },
		"resume": func() error { return g.Resume(ctx) },
		"handle": func() error { g.Handle(); return nil },
	})
	if err := g.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	atOnce(map[string]func() error{
		"dial":   func() error { _, err := g.DialGuest(ctx); return err },
		"resume": func() error { return g.Resume(ctx) },
	})
	g.greet(false)
	if out := g.sh("echo well"); out != "well" {
		t.Errorf("the guest said %q", out)
	}
}

// checkSavePaused saves a machine three times. In between it runs, and it goes on when its clones are loaded.
func checkSavePaused(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	dir := s.place(t)
	state, memory := create(t, dir+"/state"), create(t, dir+"/memory")
	defer state.Close()
	defer memory.Close()
	if _, err := Save(s.within(t), g, state, memory); err == nil {
		t.Error("a running machine was saved")
	}
	var saved [3]snapshot
	var want [3]string
	for i := range saved {
		want[i] = "up"
		if s.Virtual {
			want[i] = g.sh(fmt.Sprintf("head -c %d000000 /dev/urandom | tee /run/random >/root/random; %s", 3-i, sums)) // the last one is the smallest
		}
		saved[i] = g.save(s.place(t))
		if err := g.Resume(s.within(t)); err != nil {
			t.Fatal(err)
		}
		g.greet(false)
		if first, this := saved[0].manifest.Version, saved[i].manifest.Version; first != this {
			t.Errorf("saves of one machine have versions %q and %q", first, this)
		}
	}
	for i, snap := range saved {
		if i == 1 {
			continue // the third was saved over what it had changed
		}
		c := s.load(t, snap)
		show := sums
		if !s.Virtual {
			show = "echo up"
		}
		if out := c.sh(show); out != want[i] {
			t.Errorf("a clone of save %d has %q, want %q", i+1, out, want[i])
		}
	}
}

// sums are those of what is in memory and on the disk.
const sums = "md5sum </run/random; md5sum </root/random"

func checkSecondDial(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	first := g.conn
	g.greet(false)
	if _, err := io.ReadFull(first, make([]byte, 1)); err == nil {
		t.Error("the first connection still delivers")
	}
	if out := g.sh("echo second"); out != "second" {
		t.Errorf("over the second connection the guest said %q", out)
	}
}

func checkKill(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	for range 2 {
		if err := g.Kill(s.within(t)); err != nil {
			t.Fatalf("kill: %v", err)
		}
		select {
		case <-g.Done():
		case <-s.within(t).Done():
			t.Fatal("Done isn't closed after Kill")
		}
	}
	if _, err := proc.Read(g.Handle().PID); err == nil && !s.Inside {
		t.Error("the process is there after Kill")
	}
}
