//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// remember runs a command with a file of its own, and returns what tells them apart later: the file's content, and the process.
func remember(t *testing.T, s client.Sandbox, text string) (pid string) {
	t.Helper()
	r := runIn(t, s, shell("printf %s "+text+" >/root/note; sleep 100000 >/dev/null 2>&1 & echo $!"))
	if r.exit.Code != 0 {
		t.Fatalf("begin a process: %+v, %s", r.exit, r.stderr)
	}
	return strings.TrimSpace(string(r.stdout))
}

// recalls asserts that a sandbox has the file and the process.
func recalls(t *testing.T, s client.Sandbox, text, pid string) {
	t.Helper()
	runIn(t, s, shell("cat /root/note; tr '\\0' ' ' </proc/"+pid+"/cmdline")).want(t, 0, text+"sleep 100000 ", "")
}

// TestSuspendKeepsEverything suspends and restores a sandbox with a file, a process, and a session that prints: its client comes back by itself, again and
// again, which doesn't wake it. Once somebody has, it reads on where it was, with no byte lost or repeated.
func TestSuspendKeepsEverything(t *testing.T) {
	s := create(t, "mini")
	pid := remember(t, s, "before")
	counts := session(t, s, shell(counting))
	a := beginFollowing(t, counts, func(client.Event) {})
	visits := watchVisits(t, counts)
	now, err := platform.client.SuspendSandbox(t.Context(), s.Id)
	if err != nil || now.State != "suspended" || now.RecoveryPoint == nil {
		t.Fatalf("%+v, %v", now, err)
	}
	await(t, visits.told, "the client was told that the sandbox is suspended")
	seen := visits.count.Load()
	eventually(t, callDeadline, "a client comes back several times", func() bool { return visits.count.Load() > seen+3 })
	if now, err = platform.client.GetSandbox(t.Context(), s.Id); err != nil || now.State != "suspended" || now.Execution.Epoch != 1 {
		t.Fatalf("a client that came back by itself made of it %+v, %v", now, err)
	}
	now, err = platform.client.RestoreSandbox(t.Context(), s.Id, false)
	if err != nil || now.State != "running" || now.Execution.Epoch != 2 {
		t.Fatalf("%+v, %v", now, err)
	}
	(<-visits.done).want(t, 0, counted(), "")
	(<-a.done).want(t, 0, counted(), "")
	recalls(t, now, "before", pid)
	again(t, counts).want(t, 0, counted(), "")
}

// visits are a client's connections to a session.
type visits struct {
	count atomic.Int32
	told  chan struct{} // closed when it was told that the sandbox is suspended
	done  chan result
}

// RoundTrip counts.
func (v *visits) RoundTrip(r *http.Request) (*http.Response, error) {
	v.count.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

// watchVisits has another client attach to a session.
func watchVisits(t *testing.T, s client.SessionCreated) *visits {
	t.Helper()
	v := &visits{told: make(chan struct{}), done: make(chan result, 1)}
	c, err := client.New(platform.url, platform.key, client.WithHTTPClient(&http.Client{Transport: v}))
	if err != nil {
		t.Fatal(err)
	}
	tell := client.WhenSuspended(sync.OnceFunc(func() { close(v.told) }))
	go func() {
		defer close(v.done)
		var r result
		r.read(t, c.Attach(t.Context(), s.Session, s.Attachment, tell), func(client.Event) {})
		v.done <- r
	}()
	return v
}

// TestInputWaitsForASuspendedSandbox types into a command before its sandbox is suspended, and while it is: that wakes nothing, and arrives when somebody has.
func TestInputWaitsForASuspendedSandbox(t *testing.T) {
	s := create(t, "mini")
	in := shell("echo ready; while read x; do echo got $x; done")
	in.OpenStdin = ptr(true)
	echo := session(t, s, in)
	first := make(chan struct{})
	heard := sync.OnceFunc(func() { close(first) })
	a := beginFollowing(t, echo, func(e client.Event) {
		if e.Type == client.EventStdout && e.Offset > int64(len("ready\n")) {
			heard()
		}
	})
	plane, err := platform.client.Plane(t.Context(), s.Id)
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Close(t.Context())
	keys, typed := io.Pipe()
	defer typed.Close()
	sent := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
	defer cancel()
	go func() {
		_, err := plane.SendStdin(ctx, echo.Session.Id, 0, keys, true)
		sent <- err
	}()
	fmt.Fprintln(typed, "one")
	await(t, first, "the command has answered")
	verb(t, s.Id, "suspend")
	fmt.Fprintln(typed, "two")
	typed.Close()
	select { // more than a client takes to come back several times
	case err := <-sent:
		t.Fatalf("a suspended sandbox has taken it: %v", err)
	case <-time.After(3 * time.Second):
	}
	if now, err := platform.client.GetSandbox(t.Context(), s.Id); err != nil || now.State != "suspended" || now.Execution.Epoch != 1 {
		t.Fatalf("typing made of it %+v, %v", now, err)
	}
	verb(t, s.Id, "restore")
	if err := <-sent; err != nil {
		t.Errorf("the input broke off: %v", err)
	}
	(<-a.done).want(t, 0, "ready\ngot one\ngot two\n", "")
}

// TestASuspendedSandboxTakesNothing has no machine's process, and none of its node's memory.
func TestASuspendedSandboxTakesNothing(t *testing.T) {
	s := create(t, "mini")
	machine, label := vmm(t, s), home(t, s)
	verb(t, s.Id, "suspend")
	eventually(t, callDeadline, "the machine's process is gone", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", machine))
		return err != nil && len(held(label)) == 0
	})
}

// TestPauseKeepsAStreamOpen pauses under a client that reads: its connection stays, and goes on.
func TestPauseKeepsAStreamOpen(t *testing.T) {
	s := create(t, "mini")
	_, err := platform.client.UpdateSandbox(t.Context(), s.Id, client.SandboxUpdate{Lifecycle: &client.Lifecycle{AutoWake: ptr(false)}})
	if err != nil {
		t.Fatal(err)
	}
	a := beginFollowing(t, session(t, s, shell(counting)), func(client.Event) {})
	verb(t, s.Id, "pause")
	_, err = platform.client.CreateSession(t.Context(), s.Id, shell("true"))
	wantCode(t, err, "conflict")
	verb(t, s.Id, "resume")
	(<-a.done).want(t, 0, counted(), "")
}

// TestForksAreIndependent forks a sandbox that runs: each child has its memory and files, another identity and other random numbers, and what one does
// isn't seen by another.
func TestForksAreIndependent(t *testing.T) {
	s := create(t, "mini")
	pid := remember(t, s, "shared")
	children, err := platform.client.ForkSandbox(t.Context(), s.Id, client.SandboxFork{Count: ptr(3)})
	for _, c := range children {
		t.Cleanup(func() { _ = platform.client.DeleteSandbox(context.WithoutCancel(t.Context()), c.Id) })
	}
	if err != nil || len(children) != 3 {
		t.Fatalf("%+v, %v", children, err)
	}
	identities := map[string]string{}
	for i, c := range append(children, s) {
		if i < 3 && (c.State != "running" || c.Parent == nil || c.Parent.Sandbox != s.Id || c.Execution.Epoch != 1) {
			t.Errorf("a child is %+v", c)
		}
		recalls(t, c, "shared", pid)
		r := runIn(t, c, shell("cat /proc/sys/kernel/random/boot_id; head -c16 /dev/urandom | od -An -tx1; hostname"))
		for line := range strings.Lines(string(r.stdout)) {
			if other := identities[line]; other != "" {
				t.Errorf("%s and %s both have %q", other, c.Id, line)
			}
			identities[line] = c.Id
		}
		runIn(t, c, shell("printf "+strconv.Itoa(i)+" >/root/note; sync")).want(t, 0, "", "")
	}
	for i, c := range append(children, s) {
		runIn(t, c, shell("cat /root/note")).want(t, 0, strconv.Itoa(i), "")
	}
}

// TestRollback goes back to a snapshot from each state, that of a lost sandbox too, and makes another sandbox of it.
func TestRollback(t *testing.T) {
	s := create(t, "mini")
	pid := remember(t, s, "then")
	name := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	shot, err := platform.client.CreateSnapshot(t.Context(), s.Id, client.SnapshotCreate{Name: &name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = platform.client.DeleteSnapshot(context.WithoutCancel(t.Context()), name) })
	back := func(from string) {
		t.Helper()
		now, err := platform.client.RollbackSandbox(t.Context(), s.Id, shot.Id, false)
		if err != nil || now.State != "running" {
			t.Fatalf("from %s: %+v, %v", from, now, err)
		}
		recalls(t, now, "then", pid)
		runIn(t, now, shell("rm /root/note; sync; kill "+pid)).want(t, 0, "", "")
	}
	back("running")
	verb(t, s.Id, "pause")
	back("paused")
	verb(t, s.Id, "suspend")
	back("suspended")
	verb(t, s.Id, "stop")
	back("stopped")
	now, err := platform.client.GetSandbox(t.Context(), s.Id)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(vmm(t, now), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "the sandbox is lost", func() bool {
		now, err := platform.client.GetSandbox(t.Context(), s.Id)
		return err == nil && now.State == "lost"
	})
	_, err = platform.client.WakeSandbox(t.Context(), s.Id)
	wantCode(t, err, "execution_lost")
	back("lost")
	other, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Snapshot: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = platform.client.DeleteSandbox(context.WithoutCancel(t.Context()), other.Id) })
	recalls(t, other, "then", pid)
}

// TestAttachWakes runs commands in, and copies files to, sandboxes that are asleep.
func TestAttachWakes(t *testing.T) {
	s := create(t, "mini")
	pid := remember(t, s, "asleep")
	for _, v := range []string{"pause", "suspend"} {
		verb(t, s.Id, v)
		recalls(t, s, "asleep", pid)
	}
}

// TestKilledDaemonsInASuspend kills each daemon of the node while a sandbox is suspended, and while it's restored: the operation ends, well or not, and the
// sandbox is one or the other, whole.
func TestKilledDaemonsInASuspend(t *testing.T) {
	for _, r := range []instance.Role{instance.Host, instance.Manager, instance.API} {
		t.Run(string(r), func(t *testing.T) {
			s := create(t, "mini")
			pid := remember(t, s, "whole")
			for _, do := range []func(context.Context, string) (client.Sandbox, error){
				platform.client.SuspendSandbox,
				func(ctx context.Context, id string) (client.Sandbox, error) {
					return platform.client.RestoreSandbox(ctx, id, false)
				},
			} {
				done := make(chan error, 1)
				go func() {
					_, err := do(t.Context(), s.Id)
					done <- err
				}()
				kill(t, r)
				switch err := <-done; {
				case err != nil && r == instance.API: // the client rides out its restart
					t.Errorf("a verb while the api was killed: %v", err)
				case err != nil: // what has become of it is seen below
					t.Logf("a verb while %s was killed: %v", r, err)
				}
			}
			eventually(t, bootDeadline, "the sandbox runs, or sleeps", func() bool {
				now, err := platform.client.GetSandbox(t.Context(), s.Id)
				return err == nil && slices.Contains([]client.SandboxState{"running", "suspended"}, now.State)
			})
			now, err := platform.client.WakeSandbox(t.Context(), s.Id)
			if err != nil {
				t.Fatal(err)
			}
			recalls(t, now, "whole", pid)
		})
	}
}
