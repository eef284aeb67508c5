//go:build vm

package host_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	space "github.com/space-platform/space"
	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	hostv1 "github.com/space-platform/space/api/gen/host/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/internal/peer"
)

// TestSandbox uses what the data plane offers, with a real guest.
func TestSandbox(t *testing.T) {
	tell(t,
		story{"files go up and down through a daemon's death", filesThroughDeath},
		story{"what can be done with files", within(fileActions)},
		story{"stdin goes on after a daemon's death", within(stdinThroughDeath)},
		story{"signals, terminals and lists", within(liveSessions)},
		story{"figures", within(figures)},
		story{"a slow reader gets every byte", within(slowReader)},
	)
}

// within has a sandbox for what is done in one.
func within(run func(t *testing.T, r *rig, route space.Route)) func(t *testing.T, r *rig, mini string) {
	return func(t *testing.T, r *rig, mini string) {
		route := r.route()
		r.ensure(mini, route)
		run(t, r, route)
		r.remove(route)
	}
}

// maxChunk is how many bytes one message of an upload has.
const maxChunk = 32 << 10

// call makes a call that brings some bytes, if data isn't nil, and returns what came of it.
func (r *rig) call(ctx context.Context, route space.Route, a *sandboxv1.Action, data []byte) (answers []*sandboxv1.CallResponse, content []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := r.sandbox.Call(ctx)
	defer stream.CloseResponse()
	if err := stream.Send(&sandboxv1.CallRequest{Route: peer.RouteMessage(route), Action: a}); err != nil {
		return nil, nil, err
	}
	var sent sync.WaitGroup
	defer sent.Wait()
	sent.Go(func() {
		for n := 0; n < len(data); n += maxChunk {
			if stream.Send(&sandboxv1.CallRequest{Data: data[n:min(n+maxChunk, len(data))]}) != nil {
				return
			}
		}
		if data != nil {
			stream.Send(&sandboxv1.CallRequest{End: true})
		}
		stream.CloseRequest()
	})
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return answers, content, nil
		}
		if err != nil {
			return answers, content, peer.FromConnect(err)
		}
		if d := m.GetData(); d != nil {
			content = append(content, d...)
			continue
		}
		answers = append(answers, m)
	}
}

func (r *rig) act(route space.Route, a *sandboxv1.Action, data []byte) ([]*sandboxv1.CallResponse, []byte) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	answers, content, err := r.call(ctx, route, a, data)
	if err != nil {
		r.t.Fatal(err)
	}
	return answers, content
}

func write(path string) *sandboxv1.Action {
	return &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: path}}}
}

func read(path string) *sandboxv1.Action {
	return &sandboxv1.Action{User: "user", Action: &sandboxv1.Action_Read{Read: &sandboxv1.Read{Path: path, ToEnd: true}}}
}

func stat(path string) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Stat{Stat: &sandboxv1.Stat{Path: path}}}
}

// filesThroughDeath brings and fetches a file, and kills the daemon in the middle of both.
func filesThroughDeath(t *testing.T, r *rig, mini string) {
	const size = 50 << 20
	route := r.route()
	r.order(&controlv1.EnsureExecution{
		Route: peer.RouteMessage(route), Template: mini, Shape: &controlv1.Shape{Vcpus: 1, MemoryBytes: 128 << 20, DiskBytes: 256 << 20},
	})
	defer r.remove(route)
	want := make([]byte, size)
	rand.Read(want)
	for name, a := range map[string]*sandboxv1.Action{"up": write("/tmp/large"), "down": read("/tmp/large")} {
		if name == "down" {
			r.act(route, write("/tmp/large"), want)
		}
		kill := time.AfterFunc(150*time.Millisecond, func() { r.process.Process.Kill() })
		var data []byte
		if name == "up" {
			data = want
		}
		_, _, err := r.call(t.Context(), route, a, data)
		if code := space.CodeOf(err); err != nil && code != space.CodeUnavailable {
			t.Errorf("%s: the daemon's death is %v", name, err)
		}
		t.Logf("%s: interrupted with %v", name, err)
		kill.Stop()
		r.kill()
		r.start()
	}
	began := time.Now()
	answers, _ := r.act(route, write("/tmp/large"), want)
	t.Logf("%d MiB up in %s", size>>20, time.Since(began).Round(time.Millisecond))
	if e := answers[0].GetEntry(); e.GetSize() != size || e.GetOwner() != "user" {
		t.Errorf("wrote %v", e)
	}
	began = time.Now()
	_, got := r.act(route, read("/tmp/large"), nil)
	t.Logf("%d MiB down in %s", size>>20, time.Since(began).Round(time.Millisecond))
	if !bytes.Equal(got, want) {
		t.Errorf("read %d bytes that differ", len(got))
	}
	sum := sha256.Sum256(want)
	if out := r.run(route, "/bin/sh", "-c", "sha256sum </tmp/large; ls /tmp"); !strings.HasPrefix(out, hex.EncodeToString(sum[:])) || strings.Count(out, "\n") != 2 {
		t.Errorf("in the guest: %q", out)
	}
}

func fileActions(t *testing.T, r *rig, route space.Route) {
	r.act(route, write("/home/user/a/b"), []byte("hello"))
	r.run(route, "/bin/sh", "-c", "cd /home/user; ln -s /etc/passwd link; mkdir d; echo x >\"d/$(printf '\\377')\"")
	list := &sandboxv1.Action{Action: &sandboxv1.Action_List{List: &sandboxv1.List{Path: "/home/user", Depth: 3}}}
	answers, _ := r.act(route, list, nil)
	found := map[string]*sandboxv1.Entry{}
	for _, a := range answers {
		for _, e := range a.GetEntries().GetEntries() {
			found[e.GetPath()] = e
		}
	}
	if found["/home/user/a/b"].GetSize() != 5 || found["/home/user/link"].GetTarget() != "/etc/passwd" || found["/home/user/d/\ufffd"] == nil {
		t.Errorf("listed %v", found)
	}
	for name, c := range map[string]struct {
		a    *sandboxv1.Action
		want space.Code
	}{
		"missing":     {stat("/none"), space.CodeNotFound},
		"a directory": {read("/home"), space.CodeConflict},
		"forbidden":   {write("/etc/shadow2"), space.CodeForbidden},
		"no user":     {&sandboxv1.Action{User: "nobody2", Action: stat("/").Action}, space.CodeInvalid},
	} {
		if _, _, err := r.call(t.Context(), route, c.a, []byte("x")); space.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	stale := route
	stale.Epoch++
	if _, _, err := r.call(t.Context(), stale, stat("/"), nil); space.CodeOf(err) != space.CodeRouteStale {
		t.Errorf("a stale route: %v", err)
	}
}

// background starts a session in the background and returns its client, and a channel that closes at its end.
func (r *rig) background(route space.Route, spec *sessionv1.Spec) (*client, <-chan error) {
	r.t.Helper()
	c := r.client(route)
	c.spec = spec
	started, done := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() { done <- c.attach(r.t.Context(), func(int) { once.Do(func() { close(started) }) }) }()
	select {
	case <-started:
	case err := <-done:
		r.t.Fatalf("it ended before it started: %v", err)
	}
	return c, done
}

func stdin(session string, offset int, end bool) *sandboxv1.Action {
	return &sandboxv1.Action{Action: &sandboxv1.Action_Stdin{Stdin: &sandboxv1.Stdin{Session: session, Offset: uint64(offset), Close: end}}}
}

func stdinThroughDeath(t *testing.T, r *rig, route space.Route) {
	const size = 3 << 20
	want := make([]byte, size)
	rand.Read(want)
	c, done := r.background(route, &sessionv1.Spec{Argv: []string{"/bin/sh", "-c", "sha256sum"}, User: "user", OpenStdin: true})
	kill := time.AfterFunc(100*time.Millisecond, func() { r.process.Process.Kill() })
	_, _, err := r.call(t.Context(), route, stdin(c.session, 0, true), want)
	t.Logf("interrupted with %v", err)
	kill.Stop()
	r.kill()
	<-done
	r.start()
	answers, _ := r.act(route, stdin(c.session, 0, false), []byte{})
	have := int(answers[0].GetReceived())
	t.Logf("it has %d of %d bytes", have, size)
	answers, _ = r.act(route, stdin(c.session, have, true), want[have:])
	if got := answers[0].GetReceived(); got != size {
		t.Errorf("received %d, want %d", got, size)
	}
	if err := c.attach(t.Context(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(want)
	if !strings.HasPrefix(string(c.data), hex.EncodeToString(sum[:])) {
		t.Errorf("the command got other bytes: %s", c.data)
	}
}

func liveSessions(t *testing.T, r *rig, route space.Route) {
	c, done := r.background(route, &sessionv1.Spec{
		Argv: []string{"/bin/sh", "-c", "trap 'echo usr1; stty size' USR1; stty size; while :; do sleep 0.1; done"}, User: "user",
		Tty: &sessionv1.Terminal{Rows: 24, Cols: 80},
	})
	list := &sandboxv1.Action{Action: &sandboxv1.Action_ListSessions{ListSessions: &sandboxv1.ListSessions{}}}
	answers, _ := r.act(route, list, nil)
	if s := answers[0].GetSessions().GetSessions(); len(s) != 1 || s[0].GetSession() != c.session || s[0].GetPid() == 0 || !s[0].GetTty() || s[0].GetEnded() || s[0].GetArgv()[0] != "/bin/sh" {
		t.Errorf("listed %v", s)
	}
	c.await(t, "24 80")
	r.act(route, &sandboxv1.Action{Action: &sandboxv1.Action_Resize{Resize: &sandboxv1.Resize{Session: c.session, Rows: 50, Cols: 120}}}, nil)
	signal := func(n int32) {
		r.act(route, &sandboxv1.Action{Action: &sandboxv1.Action_Signal{Signal: &sandboxv1.Signal{Session: c.session, Signal: n}}}, nil)
	}
	signal(10)
	c.await(t, "usr1")
	c.await(t, "50 120")
	signal(9)
	if err := <-done; err != nil || c.last.GetExit().GetSignal() != 9 {
		t.Errorf("it ended with %v, %v", c.last, err)
	}
	answers, _ = r.act(route, list, nil)
	if s := answers[0].GetSessions().GetSessions()[0]; !s.GetEnded() || s.GetSignal() != 9 || s.GetPid() != 0 {
		t.Errorf("listed %v", s)
	}
	limited := r.client(route)
	limited.spec = &sessionv1.Spec{Argv: []string{"/bin/sleep", "60"}, Timeout: durationpb.New(time.Second)}
	if err := limited.attach(t.Context(), func(int) {}); err != nil || !limited.last.GetExit().GetTimedOut() {
		t.Errorf("a session with a time limit ended with %v, %v", limited.last, err)
	}
}

func figures(t *testing.T, r *rig, route space.Route) {
	r.run(route, "/bin/sh", "-c", "head -c 8000000 /dev/urandom >/home/user/large; sync")
	answers, _ := r.act(route, &sandboxv1.Action{Action: &sandboxv1.Action_Figures{Figures: &sandboxv1.Figures{}}}, nil)
	u := answers[0].GetFigures()
	t.Logf("figures: %v", u)
	if u.GetCpuSeconds() <= 0 || u.GetMemoryBytes() < 10<<20 || u.GetGuest().GetMemoryTotalBytes() < 64<<20 || u.GetGuest().GetProcesses() < 1 {
		t.Errorf("the figures are %v", u)
	}
	r.await("figures in a report, and the disk's new ones", 2*time.Minute, func(w *hostv1.WatchResponse) bool {
		u := w.GetExecutions()[0].GetUsage()
		if u != nil && time.Since(u.GetAt().AsTime()) > 15*time.Second {
			t.Errorf("the figures are of %s", u.GetAt().AsTime())
		}
		return u.GetDiskBytes() > 8_000_000 && u.GetDiskBytes() < 64<<20
	})
}

// slowReader floods a client that pauses again and again: it gets every byte, and the daemon's memory stays flat.
func slowReader(t *testing.T, r *rig, route space.Route) {
	const size = 64 << 20
	c := r.client(route, "/bin/sh", "-c", fmt.Sprintf("yes 0123456789abcdef | head -c %d", size))
	before := memoryOf(t, r.process.Process.Pid)
	most, sum, got, next := 0, sha256.New(), 0, 8<<20
	c.take = func(b []byte) {
		sum.Write(b)
		if got += len(b); got > next {
			next += 8 << 20
			<-time.After(200 * time.Millisecond) // a client that has other things to do
			most = max(most, memoryOf(t, r.process.Process.Pid))
		}
	}
	began := time.Now()
	if err := c.attach(t.Context(), func(int) {}); err != nil {
		t.Fatal(err)
	}
	want := sha256.New()
	line := []byte("0123456789abcdef\n")
	for n := 0; n < size; n += len(line) {
		want.Write(line[:min(len(line), size-n)])
	}
	if got != size || !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Errorf("got %d bytes that aren't what was printed", got)
	}
	t.Logf("%d MiB in %s; the daemon's memory was %d kB, then at most %d", size>>20, time.Since(began).Round(time.Millisecond), before, most)
	if most > before+(48<<10) {
		t.Errorf("the daemon's memory grew from %d to %d kB", before, most)
	}
}

// memoryOf is how much memory a process has in kB.
func memoryOf(t *testing.T, pid int) (kB int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(rest, &kB)
		}
	}
	return kB
}
