package monitor_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
	"github.com/space-platform/space/internal/peer"
	"github.com/space-platform/space/internal/proc"
)

// listenerVariable makes the test's program a stand-in for a VMM: it listens on descriptor 3 and repeats what it gets.
const listenerVariable = "MONITOR_TEST_LISTEN"

func TestMain(m *testing.M) {
	if os.Getenv(listenerVariable) != "" {
		listen()
		return
	}
	os.Exit(m.Run())
}

func listen() {
	if err := unix.Listen(3, 1); err != nil {
		os.Exit(1)
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		io.Copy(c, c)
		c.Close()
	}
}

// start runs a program in which descriptor 3 is a bound socket.
func start(t *testing.T, path string, env string, args ...string) (*monitor.Process, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	f, err := monitor.Bind(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv(listenerVariable, env)
	p, err := vmmtest.NewStarter(t).Start(t.Context(), vmm.Command{Path: path, Args: args, Files: []*os.File{f}})
	if err != nil {
		t.Fatal(err)
	}
	return adopt(t, p), socket
}

func adopt(t *testing.T, p vmm.Process) *monitor.Process {
	t.Helper()
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	m := monitor.Adopt(p, os.Getuid(), boot)
	t.Cleanup(func() { m.Close() })
	return m
}

func sleeper(t *testing.T) (*monitor.Process, string) { return start(t, "/usr/bin/sleep", "", "600") }

func listener(t *testing.T) (*monitor.Process, string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, self, "1")
}

func TestDialReachesTheProcessItself(t *testing.T) {
	p, socket := listener(t)
	c, err := p.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cred, err := peer.Credentials(c)
	if err != nil || int(cred.Pid) != p.PID() {
		t.Errorf("the peer is %+v, %v, want pid %d", cred, err, p.PID())
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("the process doesn't answer: %v", err)
	}
}

// An impostor listens where the process should: even one of the same uid is not talked to.
func TestDialTalksToNobodyElse(t *testing.T) {
	p, _ := sleeper(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c, err := p.Dial(ctx, socket)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Dial = %v, %v, want the deadline", c, err)
	}
	if !strings.Contains(err.Error(), "another process") {
		t.Errorf("the error doesn't say why: %v", err)
	}
}

// Within a process's root directory, which here is ours, no link is followed: it would lead into ours.
func TestDialWithinFollowsNoLink(t *testing.T) {
	p, socket := listener(t)
	c, err := p.DialWithin(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, filepath.Join(t.TempDir(), "none")} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if c, err := p.DialWithin(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("DialWithin %s = %v, %v, want the deadline", path, c, err)
		}
		cancel()
	}
}

// A process that replaces a socket by one of another process isn't believed.
func TestDialWithinTalksToNobodyElse(t *testing.T) {
	p, _ := sleeper(t)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c, err := p.DialWithin(ctx, socket); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("DialWithin = %v, %v, want the deadline and why", c, err)
	}
}

func TestDialEndsWithTheProcess(t *testing.T) {
	p, socket := sleeper(t) // which never listens
	ended := make(chan error, 1)
	go func() {
		_, err := p.Dial(t.Context(), socket)
		ended <- err
	}()
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, vmm.ErrGone) {
		t.Errorf("Dial = %v, want ErrGone", err)
	}
}

func TestKillIsTheEnd(t *testing.T) {
	p, _ := sleeper(t)
	for range 2 {
		if err := p.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	<-p.Done()
	if err := p.Explain(io.EOF, true); !errors.Is(err, vmm.ErrGone) || !errors.Is(err, io.EOF) {
		t.Errorf("Explain = %v, want ErrGone because of EOF", err)
	}
	if _, err := monitor.Find(p.Handle("x", nil)); !errors.Is(err, vmm.ErrGone) {
		t.Errorf("Find = %v, want ErrGone", err)
	}
}

func TestCloseLetsTheProcessGoOn(t *testing.T) {
	p, _ := sleeper(t)
	h := p.Handle("x", nil)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := monitor.Find(h)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Gone() || again.Explain(io.EOF, false) != io.EOF {
		t.Error("the process is taken for gone")
	}
	if err := again.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-again.Done()
}

func TestOnlyTheEndOfWhatIsSaidIsKept(t *testing.T) {
	s, w, err := monitor.NewSaid()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", "-c", "yes filler | head -c 200000; echo; echo the end")
	c.Stdout = w
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	said := s.Drain()
	if len(said) > 4<<10 || !strings.HasSuffix(said, "\nthe end") {
		t.Errorf("kept %d bytes that end with %q", len(said), said[max(0, len(said)-20):])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A process whose daemon has died writes on: Firecracker's handler of SIGPIPE would wait for the log that the signal interrupted, for ever.
func TestWhatIsSaidToNobodyBreaksNothing(t *testing.T) {
	s, w, err := monitor.NewLastingSaid()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := exec.CommandContext(t.Context(), "sh", "-c", "echo heard; read go; for i in $(seq 3000); do echo 'to nobody, to nobody, to nobody'; done 2>/dev/null; echo well >&2")
	c.Stdout, c.Stderr = w, out
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for s.Last() != "heard" {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	io.WriteString(in, "go\n")
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if b, err := os.ReadFile(out.Name()); err != nil || string(b) != "well\n" {
		t.Errorf("it says %q, %v", b, err)
	}
}
