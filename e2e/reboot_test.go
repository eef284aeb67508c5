//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/setup"
)

// TestReboot reboots twice, into a boot with another id and back: what was in memory is lost and said to be, what was on disk is there, and the
// platform goes on. A record of either boot is read in the other.
func TestReboot(t *testing.T) {
	_ = buildBase() // where few tests run, the template is still being built, and its build would end here; a test that needs it says what is wrong
	ran, stopped := create(t, "mini"), create(t, "mini")
	for _, s := range []client.Sandbox{ran, stopped} {
		runIn(t, s, shell("echo kept > /root/file; sync")).want(t, 0, "", "")
	}
	verb(t, stopped.Id, "stop")

	runtime.LockOSThread() // and never unlocked: nothing else runs on a thread that was in another boot
	enter, leave := anotherBoot(t)
	for _, boot := range []struct {
		name   string
		change func(*testing.T)
	}{{"another boot", enter}, {"this boot", leave}} {
		open := session(t, ran, shell("echo here; exec sleep 1000"))
		awaitOutput(t, open)
		powerOff(t, platform.instance)
		boot.change(t)
		if _, code := space(t, "up", "--no-install"); code != 0 {
			t.Fatalf("up in %s: exit %d", boot.name, code)
		}
		wantLost(t, ran, open)
		if now, err := platform.client.GetSandbox(t.Context(), stopped.Id); err != nil || now.State != "stopped" {
			t.Errorf("the stopped sandbox is %s in %s: %v", now.State, boot.name, err)
		}
		verb(t, ran.Id, "start")
		runIn(t, ran, shell("cat /root/file")).want(t, 0, "kept\n", "")
		awaitSlots(t)
	}
	verb(t, stopped.Id, "start")
	runIn(t, stopped, shell("cat /root/file")).want(t, 0, "kept\n", "")
	runIn(t, create(t, "mini"), shell("echo new")).want(t, 0, "new\n", "")
}

// anotherBoot returns how this thread, and what it starts, gets into a boot with another id, and back. Boots share no mounts: each has a mount
// namespace of its own. The platform is up in this boot when the test ends, whatever came between.
func anotherBoot(t *testing.T) (enter, leave func(*testing.T)) {
	t.Helper()
	const bootID = "/proc/sys/kernel/random/boot_id"
	this, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	id := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(id, []byte("5ace5ace-0000-4000-8000-5ace5ace5ace\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	away := false
	enter = func(t *testing.T) {
		t.Helper()
		nothingRemains(t, platform.instance) // before: the new namespace begins with this one's mounts
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Fatal(err)
		}
		away = true
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(id, bootID, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	leave = func(t *testing.T) {
		t.Helper()
		if err := unix.Setns(int(this.Fd()), unix.CLONE_NEWNS); err != nil {
			t.Fatal(err)
		}
		away = false
		nothingRemains(t, platform.instance)
	}
	t.Cleanup(func() {
		defer this.Close()
		if !t.Failed() {
			return
		}
		powerOff(t, platform.instance)
		if away {
			leave(t)
		} else {
			nothingRemains(t, platform.instance)
		}
		if err := show("up", "--no-install", "--instance", platform.instance.Name); err != nil {
			t.Error(err)
		}
	})
	return enter, leave
}

// powerOff ends every process of a platform, machines too, none of which gets to do anything about it.
func powerOff(t *testing.T, i instance.Instance) {
	t.Helper()
	eventually(t, callDeadline, "every process has ended", func() bool {
		left := processes(belongsTo(i))
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
}

// nothingRemains takes away what doesn't outlive a kernel, and what is in /run.
func nothingRemains(t *testing.T, i instance.Instance) {
	t.Helper()
	eventually(t, callDeadline, "what doesn't outlive a kernel is gone", func() bool { // a process that has ended may still be in its cgroup
		err := setup.RemoveKernelObjects(context.WithoutCancel(t.Context()), i)
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	if err := os.RemoveAll(i.RunDir()); err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "the kernel has let go of everything", func() bool {
		left, err := setup.Leftovers(i)
		if err != nil {
			t.Fatal(err)
		}
		return len(left) == 0
	})
}

// awaitOutput waits until a session has said something.
func awaitOutput(t *testing.T, s client.SessionCreated) {
	t.Helper()
	for e, err := range platform.client.Attach(t.Context(), s.Session, s.Attachment) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == client.EventStdout {
			return
		}
	}
	t.Fatal("the session ended without a word")
}

// awaitLost waits until a sandbox says that its machine is lost.
func awaitLost(t *testing.T, s client.Sandbox) {
	t.Helper()
	eventually(t, callDeadline, "the sandbox is lost", func() bool {
		now, err := platform.client.GetSandbox(t.Context(), s.Id)
		return err == nil && now.State == "lost" && now.Error != nil && now.Error.Code == "execution_lost"
	})
}

// wantLost checks that a sandbox's loss is said in its state, in the project's events, and to who comes back to its session, whose output is kept.
func wantLost(t *testing.T, s client.Sandbox, open client.SessionCreated) {
	t.Helper()
	awaitLost(t, s)
	var said []string
	for e, err := range platform.client.ListEvents(t.Context(), s.Id) {
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, string(e.Type))
	}
	if last := said[max(0, len(said)-1):]; strings.Join(last, "") != "sandbox.lost" {
		t.Errorf("the sandbox's events are %v, the last one should be its loss", said)
	}
	r := follow(t, open, func(client.Event) {})
	if r.lost == nil || r.lost.Code != "execution_lost" || string(r.stdout) != "here\n" {
		t.Errorf("the session says %q and ends with %+v, want its output and its loss", r.stdout, r.lost)
	}
}
