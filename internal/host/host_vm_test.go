//go:build vm

package host_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	"github.com/space-platform/space/internal/peer"
)

// TestHost is the life of a node: one daemon after the other, with real machines.
func TestHost(t *testing.T) {
	tell(t,
		story{"a sandbox runs commands", sandboxRuns},
		story{"a killed machine is lost within two seconds", killedMachine},
		story{"a killed daemon loses no byte", killedDaemon},
		story{"a daemon killed in a creation begins it anew", killedInCreation},
		story{"a stopped daemon says goodbye and comes back", stoppedDaemon},
		story{"a machine that dies while nobody watches is lost", diesUnwatched},
		story{"a flood waits for its reader, and for nobody else", flood},
		story{"many at once", manyAtOnce},
		story{"clones differ", clonesDiffer},
		story{"creation is fast", fastCreation},
		story{"a guest that stands still loses nothing", silentGuest},
	)
}

func sandboxRuns(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	if got := r.run(route, "/bin/sh", "-c", "id -u; echo $HOME; hostname"); got != "1000\n/home/user\nsbx-"+space.HostLabel(route.Sandbox)+"\n" {
		t.Errorf("it printed %q", got)
	}
	r.run(route, "/bin/sh", "-c", "echo kept > file")
	if got := r.run(route, "/bin/cat", "file"); got != "kept\n" {
		t.Errorf("a second command read %q", got)
	}
	r.ensure(mini, route)
	r.remove(route)
	r.remove(route)
}

func killedMachine(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	c := r.client(route, "/bin/sh", "-c", "echo up; sleep 600")
	attached, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- c.attach(t.Context(), func(n int) {
			if n == len("up\n") && c.last.GetOutput() != nil {
				close(attached)
			}
		})
	}()
	<-attached
	for _, pid := range r.machines() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := c.last.GetLost().GetError().GetCode(); got != string(space.CodeExecutionLost) {
		t.Errorf("the client's last event is %v", c.last)
	}
	r.await("the loss", 2*time.Second, func(w *hostv1.WatchResponse) bool {
		return w.GetExecutions()[0].GetState() == string(space.ExecutionLost) && w.GetExecutions()[0].GetError() != nil
	})
	t.Logf("lost after %s", time.Since(began))
	if left := r.machines(); len(left) > 0 {
		t.Errorf("machines %v still run", left)
	}
	r.remove(route)
}

// numbers is what a shell prints that counts to n.
func numbers(n int) []byte {
	var b bytes.Buffer
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.Bytes()
}

// counter is a command that prints numbers, slowly enough to be interrupted.
const counter = "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; [ $((i%%50)) -ne 0 ] || usleep 20000; done; exit 7"

func killedDaemon(t *testing.T, r *rig, mini string) {
	const n = 5000
	route := r.route()
	r.ensure(mini, route)
	c := r.client(route, "/bin/sh", "-c", fmt.Sprintf(counter, n))
	want := numbers(n)
	for _, until := range []int{100, len(want) / 3, len(want) / 2} {
		err := c.attach(t.Context(), func(got int) {
			if got >= until {
				r.process.Process.Kill()
			}
		})
		if err == nil {
			t.Fatalf("the stream ended by itself with %v", c.last)
		}
		r.kill()
		r.start()
	}
	if err := c.attach(t.Context(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	if c.last.GetExit().GetCode() != 7 {
		t.Errorf("the last event is %v", c.last)
	}
	if !bytes.Equal(c.data, want) {
		t.Errorf("got %d bytes, want %d", len(c.data), len(want))
	}
	r.remove(route)
}

// killedInCreation kills the daemon at several moments of a creation, and of a removal.
func killedInCreation(t *testing.T, r *rig, mini string) {
	for n := range 8 {
		moment := time.Duration(n) * 20 * time.Millisecond
		route := r.route()
		kill := time.AfterFunc(moment, func() { r.process.Process.Kill() })
		r.host.EnsureExecution(t.Context(), connect.NewRequest(&hostv1.EnsureExecutionRequest{
			Order: &controlv1.EnsureExecution{Route: peer.RouteMessage(route), Template: mini},
		}))
		kill.Stop()
		r.kill()
		r.start()
		r.ensure(mini, route)
		if got := len(r.machines()); got != 1 {
			t.Errorf("killed after %s: %d machines", moment, got)
		}
		r.run(route, "/bin/true")
		kill = time.AfterFunc(moment/4, func() { r.process.Process.Kill() })
		r.host.RemoveExecution(t.Context(), connect.NewRequest(&hostv1.RemoveExecutionRequest{Route: peer.RouteMessage(route)}))
		kill.Stop()
		r.kill()
		r.start()
		r.remove(route)
		r.checkNothingLeft()
	}
}

func stoppedDaemon(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	c := r.client(route, "/bin/sh", "-c", "echo up; sleep 3; echo done")
	up, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		<-up
		r.stop()
	}()
	if err := c.attach(t.Context(), func(n int) {
		if n == len("up\n") && c.last.GetOutput() != nil {
			close(up)
		}
	}); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if c.last.GetEnded().GetReason() != "shutting_down" {
		t.Errorf("the last event is %v", c.last)
	}
	r.start()
	if err := c.attach(t.Context(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	if string(c.data) != "up\ndone\n" || c.last.GetExit() == nil {
		t.Errorf("got %q, then %v", c.data, c.last)
	}
	r.remove(route)
}

func diesUnwatched(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	r.kill()
	for _, pid := range r.machines() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.await("the loss", 2*time.Second, func(w *hostv1.WatchResponse) bool {
		return w.GetExecutions()[0].GetState() == string(space.ExecutionLost)
	})
	r.remove(route)
}

// flood prints more than a ring holds: once to somebody who reads it all, once to nobody.
func flood(t *testing.T, r *rig, mini string) {
	const bytes = 24 << 20
	print := fmt.Sprintf("head -c %d /dev/zero; echo done > flooded", bytes)
	route := r.route()
	r.ensure(mini, route)
	began := time.Now()
	if got := r.run(route, "/bin/sh", "-c", print); len(got) != bytes {
		t.Errorf("read %d bytes, want %d", len(got), bytes)
	}
	t.Logf("%d MiB in %s", bytes>>20, time.Since(began))
	r.run(route, "/bin/rm", "flooded")
	c := r.client(route, "/bin/sh", "-c", print)
	ctx, cancel := context.WithCancel(t.Context())
	c.attach(ctx, func(int) { cancel() }) // it has started
	cancel()
	r.run(route, "/bin/sh", "-c", "until [ -e flooded ]; do usleep 50000; done")
	var gap uint64
	if err := c.attach(t.Context(), func(int) {
		if g := c.last.GetGap(); g != nil {
			gap += g.GetTo() - g.GetFrom()
			c.data = append(c.data, make([]byte, g.GetTo()-g.GetFrom())...)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if len(c.data) != bytes || gap < bytes-17<<20 || gap > bytes-15<<20 || c.last.GetExit() == nil {
		t.Errorf("got %d bytes with a gap of %d, then %v", len(c.data), gap, c.last)
	}
	r.remove(route)
}

// manyAtOnce makes and removes sandboxes side by side.
func manyAtOnce(t *testing.T, r *rig, mini string) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			route := r.route()
			r.ensure(mini, route)
			if got := r.run(route, "/bin/echo", route.Execution); got != route.Execution+"\n" {
				t.Errorf("%s printed %q", route.Execution, got)
			}
			r.remove(route)
		})
	}
	all.Wait()
}

func clonesDiffer(t *testing.T, r *rig, mini string) {
	seen := map[string]bool{}
	for range 3 {
		route := r.route()
		r.ensure(mini, route)
		defer r.remove(route)
		seen[r.run(route, "/bin/sh", "-c", "head -c 16 /dev/urandom | od -An -tx1")] = true
		out := strings.TrimSpace(r.run(route, "/bin/date", "+%s"))
		var at int64
		if _, err := fmt.Sscan(out, &at); err != nil || time.Since(time.Unix(at, 0)).Abs() > 5*time.Second {
			t.Errorf("its clock says %s", out)
		}
	}
	if len(seen) != 3 {
		t.Errorf("three clones drew %d different numbers", len(seen))
	}
}

func fastCreation(t *testing.T, r *rig, mini string) {
	var created, first, later []time.Duration
	for range 10 {
		route := r.route()
		created = append(created, r.ensure(mini, route))
		for n := range 4 {
			began := time.Now()
			r.run(route, "/bin/echo", "hello")
			if n == 0 {
				first = append(first, time.Since(began))
			} else {
				later = append(later, time.Since(began))
			}
		}
		r.remove(route)
	}
	for what, times := range map[string][]time.Duration{"ensure → running": created, "first echo": first, "later echo": later} {
		slices.Sort(times)
		t.Logf("%s: median %s, min %s, max %s", what, times[len(times)/2], times[0], times[len(times)-1])
	}
}
