//go:build vm

package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// TestStop stops sandboxes, with real machines and disks.
func TestStop(t *testing.T) {
	tell(t,
		story{"a stopped sandbox keeps its files", stopAndStart},
		story{"processes have their time, and their output stays", terminated},
		story{"a wedged guest is stopped", wedgedGuest},
		story{"a daemon killed in a stop goes on with it", killedInStop},
	)
}

// TestStart starts sandboxes from what there is of them.
func TestStart(t *testing.T) {
	tell(t,
		story{"a lost sandbox starts from its disk", startFromLost},
		story{"a daemon killed in a start begins it anew", killedInStart},
		story{"a sandbox of another shape", otherShape},
		story{"a template that goes leaves its sandboxes alone", templateGoes},
	)
}

// stopGrace is more than any process needs that the tests leave running, and less than a stop may take.
const stopGrace = 15 * time.Second

// stop stops an execution.
func (r *rig) stopExecution(route space.Route) {
	r.t.Helper()
	began := time.Now()
	_, err := r.host.StopExecution(r.t.Context(), connect.NewRequest(&hostv1.StopExecutionRequest{
		Order: &controlv1.StopExecution{Route: peer.RouteMessage(route), Grace: durationpb.New(stopGrace)},
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.await("the stop", stopGrace+2*time.Minute, func(w *hostv1.WatchResponse) bool {
		for _, e := range w.GetExecutions() {
			if e.GetRoute().GetExecution() == route.Execution {
				return e.GetState() == string(space.ExecutionStopped)
			}
		}
		return false
	})
	if left := r.machines(); len(left) > 0 {
		r.t.Errorf("machines %v still run", left)
	}
	r.t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
}

// successor is the route of a sandbox's next execution.
func successor(route space.Route) space.Route {
	route.Execution = space.NewID(space.PrefixExecution)
	route.Epoch++
	return route
}

// startFrom starts a sandbox's next execution from the disk of the one before, which is removed then.
func (r *rig) startFrom(template string, old space.Route) space.Route {
	r.t.Helper()
	next := successor(old)
	r.t.Logf("started in %s", r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(next), Template: template, DiskOf: old.Execution}).Round(time.Millisecond))
	r.remove(old)
	return next
}

const writeFiles = "echo kept >/home/user/file; head -c 3000000 /dev/urandom >/home/user/random; md5sum </home/user/random"

const readFiles = "cat /home/user/file; md5sum </home/user/random"

const bootID = "cat /proc/sys/kernel/random/boot_id"

func stopAndStart(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	sum, boot := r.run(route, "/bin/sh", "-c", writeFiles), r.run(route, "/bin/sh", "-c", bootID)
	for range 3 {
		r.stopExecution(route)
		route = r.startFrom(mini, route)
		if got := r.run(route, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
			t.Errorf("after the start it has %q", got)
		}
		if again := r.run(route, "/bin/sh", "-c", bootID); again == boot {
			t.Errorf("the boot id is still %s", again)
		}
		if got := r.run(route, "/bin/sh", "-c", "id -un; hostname; dmesg | grep -c 'recovery complete'; true"); !strings.HasPrefix(got, "user\nsbx-"+space.HostLabel(route.Sandbox)+"\n") {
			t.Errorf("it printed %q", got)
		}
	}
	r.stopExecution(route)
	r.kill()
	r.start()
	r.stopExecution(route)
	r.remove(route)
}

// terminated stops a sandbox in which one process takes its time, one runs in the background and one ignores all.
func terminated(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	r.run(route, "/bin/sh", "-c", `(trap 'sleep 1; echo told >/home/user/background; exit' TERM; while :; do sleep 0.1; done) >/dev/null 2>&1 &`)
	polite := r.client(route, "/bin/sh", "-c", `trap 'sleep 1; echo bye; exit 7' TERM; echo up; while :; do sleep 0.1; done`)
	deaf := r.client(route, "/bin/sh", "-c", `trap '' TERM; echo up; while :; do sleep 0.1; done`)
	terminal := r.client(route, "/bin/sh")
	terminal.spec.Tty = &sessionv1.Terminal{Rows: 24, Cols: 80}
	ended := make(chan error, 3)
	for _, c := range []*client{polite, deaf, terminal} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go func() { ended <- c.attach(ctx, func(int) {}) }()
	}
	polite.await(t, "up")
	deaf.await(t, "up")
	terminal.await(t, "$")
	began := time.Now()
	r.stopExecution(route)
	if took := time.Since(began); took < stopGrace {
		t.Errorf("the stop took %s, and a process used all of its %s", took, stopGrace)
	}
	for range 3 {
		if err := <-ended; err != nil {
			t.Errorf("an attached client: %v", err)
		}
	}
	check := func(route space.Route) {
		t.Helper()
		for name, x := range map[string]struct {
			c      *client
			last   string // that it printed; a shell also tells of its children's ends
			code   int32
			signal string
		}{"polite": {polite, "bye\n", 7, ""}, "deaf": {deaf, "up\n", 0, "SIGKILL"}} {
			again := r.client(route)
			again.session, again.spec = x.c.session, nil
			if err := again.attach(t.Context(), func(int) {}); err != nil {
				t.Fatal(err)
			}
			if e := again.last.GetExit(); !strings.HasPrefix(string(again.data), "up\n") || !strings.HasSuffix(string(again.data), x.last) || e.GetCode() != x.code || e.GetSignalName() != x.signal || !e.GetStopped() {
				t.Errorf("%s printed %q, and ended with %v", name, again.data, again.last)
			}
		}
	}
	if e := terminal.last.GetExit(); !e.GetStopped() || e.GetSignalName() == "SIGKILL" {
		t.Errorf("the terminal ended with %v", terminal.last)
	}
	check(route)
	r.kill()
	r.start()
	check(route)
	route = r.startFrom(mini, route)
	check(route)
	if got := r.run(route, "/bin/cat", "/home/user/background"); got != "told\n" {
		t.Errorf("the process in the background left %q", got)
	}
	began = time.Now()
	r.stopExecution(route) // nothing runs
	if took := time.Since(began); took > stopGrace {
		t.Errorf("the stop of an idle one took %s", took)
	}
	check(route)
	r.remove(route)
}

func startFromLost(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	sum := r.run(route, "/bin/sh", "-c", writeFiles+"; sync")
	for _, pid := range r.machines() {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	r.await("the loss", 5*time.Second, func(w *hostv1.WatchResponse) bool {
		return w.GetExecutions()[0].GetState() == string(space.ExecutionLost)
	})
	route = r.startFrom(mini, route)
	if got := r.run(route, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
		t.Errorf("after the start it has %q", got)
	}
	r.remove(route)
}

// killedInStop kills the daemon at several moments of a stop.
func killedInStop(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	sum := r.run(route, "/bin/sh", "-c", writeFiles)
	for n := range 6 {
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(n)*15*time.Millisecond, func() { r.process.Process.Kill(); close(killed) })
		r.host.StopExecution(t.Context(), connect.NewRequest(&hostv1.StopExecutionRequest{Order: &controlv1.StopExecution{Route: peer.RouteMessage(route)}}))
		<-killed
		r.kill()
		r.start()
		r.stopExecution(route)
		route = r.startFrom(mini, route)
		if got := r.run(route, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
			t.Errorf("killed at moment %d: it has %q", n, got)
		}
	}
	r.remove(route)
}

// killedInStart kills the daemon at several moments of a start.
func killedInStart(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	sum := r.run(route, "/bin/sh", "-c", writeFiles)
	for n := range 5 {
		r.stopExecution(route)
		next := successor(route)
		order := &controlv1.EnsureExecution{Route: peer.RouteMessage(next), Template: mini, DiskOf: route.Execution}
		kill := time.AfterFunc(time.Duration(n*n)*40*time.Millisecond, func() { r.process.Process.Kill() })
		r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{Order: order}))
		kill.Stop()
		r.kill()
		r.start()
		r.order(order)
		r.remove(route)
		if got := r.run(next, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
			t.Errorf("killed at moment %d: it has %q", n, got)
		}
		if got := len(r.machines()); got != 1 {
			t.Errorf("killed at moment %d: %d machines", n, got)
		}
		route = next
	}
	r.remove(route)
}

// wedgedGuest stops a machine whose process stands still.
func wedgedGuest(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	sum := r.run(route, "/bin/sh", "-c", writeFiles+"; sync")
	for _, pid := range r.machines() {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	r.stopExecution(route)
	route = r.startFrom(mini, route)
	if got := r.run(route, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
		t.Errorf("after the start it has %q", got)
	}
	r.remove(route)
}

func otherShape(t *testing.T, r *rig, mini string) {
	route := r.route()
	shape := &controlv1.Shape{Vcpus: 2, MemoryBytes: 256 << 20, DiskBytes: 256 << 20}
	r.t.Logf("booted in %s", r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(route), Template: mini, Shape: shape}).Round(time.Millisecond))
	if got := r.run(route, "/bin/sh", "-c", "grep -c ^processor /proc/cpuinfo"); got != "2\n" {
		t.Errorf("it has %q processors", got)
	}
	for what, command := range map[string]string{
		"memory": "sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo",
		"disk":   "df -k / | sed -n 's/^[^ ]* *\\([0-9]*\\) .*/\\1/p'",
	} {
		got, err := strconv.Atoi(strings.TrimSpace(r.run(route, "/bin/sh", "-c", command)))
		if err != nil || got < 200<<10 || got > 256<<10 {
			t.Errorf("its %s is %d kB, %v", what, got, err)
		}
	}
	r.awaitShape()
	second := r.route()
	r.t.Logf("restored in %s", r.order(&controlv1.EnsureExecution{Route: peer.RouteMessage(second), Template: mini, Shape: shape}).Round(time.Millisecond))
	loaded := 0
	for _, pid := range r.machines() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(line), "-incoming") {
			loaded++
		}
	}
	if loaded != 1 {
		t.Errorf("%d machines were loaded from a snapshot, want the second", loaded)
	}
	const size = "grep -c ^processor /proc/cpuinfo; df -k / | sed -n 's/^[^ ]* *\\([0-9]*\\) .*/\\1/p'"
	if got, want := r.run(second, "/bin/sh", "-c", size), r.run(route, "/bin/sh", "-c", size); got != want {
		t.Errorf("the second has %q, the first %q", got, want)
	}
	r.remove(second)
	r.remove(route)
}

// awaitShape waits until there is a second snapshot beside the template's own.
func (r *rig) awaitShape() {
	r.t.Helper()
	looks := time.NewTicker(100 * time.Millisecond)
	defer looks.Stop()
	for deadline := time.After(5 * time.Minute); ; {
		whole, err := filepath.Glob(filepath.Join(r.volume().Path, "templates", "*[^w]", "manifest.json")) // not those that end in .new
		if err != nil {
			r.t.Fatal(err)
		}
		if len(whole) > 1 {
			return
		}
		select {
		case <-looks.C:
		case <-deadline:
			r.t.Fatal("no snapshot of the shape was made")
		}
	}
}

// templateGoes restarts the daemon with another kernel: the template is out of date then.
func templateGoes(t *testing.T, r *rig, mini string) {
	running, stopped := r.route(), r.route()
	r.ensure(mini, stopped)
	sum := r.run(stopped, "/bin/sh", "-c", writeFiles)
	r.stopExecution(stopped)
	r.ensure(mini, running)
	r.run(running, "/bin/sh", "-c", "echo before >/home/user/file")
	before := ""
	r.await("the template", time.Minute, func(w *hostv1.WatchResponse) bool {
		before = w.GetTemplates()[0].GetDigest()
		return true
	})
	r.stop()
	r.Kernel.Digest = "another"
	r.start()
	r.await("the template's end", time.Minute, func(w *hostv1.WatchResponse) bool {
		return len(w.GetTemplates()) == 0 || w.GetTemplates()[0].GetDigest() != before
	})
	if got := r.run(running, "/bin/sh", "-c", "cat /home/user/file"); got != "before\n" {
		t.Errorf("the sandbox has %q", got)
	}
	stopped = r.startFrom(mini, stopped)
	if got := r.run(stopped, "/bin/sh", "-c", readFiles); got != "kept\n"+sum {
		t.Errorf("after the start it has %q", got)
	}
	r.remove(running)
	r.remove(stopped)
	r.await("the template anew", 5*time.Minute, func(w *hostv1.WatchResponse) bool {
		return len(w.GetTemplates()) == 0 || w.GetTemplates()[0].GetState() == "ready"
	})
}
