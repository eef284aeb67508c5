package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
)

// asProgram makes the test binary behave as the program.
const asProgram = "SPACED_GUEST_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Unsetenv(asProgram)
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts the program.
func start(t *testing.T, files []*os.File, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// listen returns a listening socket to inherit, and its path.
func listen(t *testing.T) (*os.File, string) {
	path := filepath.Join(t.TempDir(), "link")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, path
}

// firstOutput runs a script and returns what it prints first.
func firstOutput(t *testing.T, ctx context.Context, path, script string) string {
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.Host(ctx, conn, link.Sync{Execution: "exe_t", Epoch: 1, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	call, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_OpenSession{OpenSession: &guestv1.OpenSession{
		Session: "ses_1", Spec: &sessionv1.Spec{Argv: []string{"/bin/sh", "-c", script}, User: "root"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Open(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := s.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var m guestv1.FromSession
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if o := m.GetOutput(); o != nil {
			return strings.TrimSpace(string(o.Data))
		}
	}
}

func TestCommandsDieWithTheProgram(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"term": syscall.SIGTERM, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			f, path := listen(t)
			cmd := start(t, []*os.File{f}, "--serve-fd", "3")
			pid, err := strconv.Atoi(firstOutput(t, ctx, path, "echo $$; exec sleep 1000"))
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			cmd.Process.Signal(sig)
			err = cmd.Wait()
			if sig == syscall.SIGTERM && err != nil {
				t.Errorf("the program ended with %v", err)
			}
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(poll, 20_000); n != 1 {
				t.Errorf("the command lives on: %v", err)
			}
		})
	}
}

func TestRootIsChanged(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	root := t.TempDir()
	for _, dir := range []string{"usr", "bin", "lib", "lib64", "dev"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("/"+dir, filepath.Join(root, dir), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(filepath.Join(root, dir), unix.MNT_DETACH) })
	}
	f, path := listen(t)
	start(t, []*os.File{f}, "--serve-fd", "3", "--root", root)
	if got := firstOutput(t, ctx, path, "echo /*"); got != "/bin /dev /lib /lib64 /usr" {
		t.Errorf("the root has %q", got)
	}
}

// TestFilesAreThoseOfTheRoot: no path leads out of it.
func TestFilesAreThoseOfTheRoot(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "d"), 0o755), os.Mkdir(filepath.Join(root, "etc"), 0o755), os.Symlink("../../../etc", filepath.Join(root, "d/up"))); err != nil {
		t.Fatal(err)
	}
	f, path := listen(t)
	start(t, []*os.File{f}, "--serve-fd", "3", "--root", root)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.Host(ctx, conn, link.Sync{Execution: "exe_t", Epoch: 1, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	call, err := proto.Marshal(&guestv1.Call{Call: &guestv1.Call_Files{Files: &sandboxv1.Action{
		Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "/d/up/../../d/up/space-test", Mode: proto.Uint32(0o604)}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Open(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&guestv1.ToFiles{Data: []byte("inside"), End: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(ctx, data); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "etc/space-test")); string(b) != "inside" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOrdinaryProcessBootsNothing(t *testing.T) {
	cmd := start(t, nil)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("the program ended with %v, want code 2", err)
	}
}
