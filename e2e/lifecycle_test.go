//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/space-platform/space/client"
)

// bootDeadline bounds a machine's boot under emulation, beside others.
const bootDeadline = 3 * time.Minute

// call asks the management API, and decodes what it answers with.
func call[T any](t *testing.T, method, path string, body any) (out T, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
	defer cancel()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if body == nil {
		sent = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, platform.url+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+platform.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil { // the answer is a problem, as a rule, and no T
		t.Fatalf("%s %s answered %s %s: %v", method, path, res.Status, text, err)
	}
	return out, res.StatusCode
}

// verb does one to a sandbox, and waits until it has succeeded.
func verb(t *testing.T, id, verb string) client.Sandbox {
	t.Helper()
	o, status := call[client.Operation](t, "POST", "/v1/sandboxes/"+id+"/"+verb+"?wait=180s", nil)
	if status != http.StatusOK || o.Status != "succeeded" {
		t.Fatalf("%s: status %d, operation %+v, error %+v", verb, status, o, o.Error)
	}
	return *o.Sandbox
}

// createAs makes a sandbox of mini with more than its template says, that lives as long as the test.
func createAs(t *testing.T, in map[string]any) client.Sandbox {
	t.Helper()
	if in["template"] == nil && in["snapshot"] == nil {
		in["template"] = "mini"
	}
	o, _ := call[client.Operation](t, "POST", "/v1/sandboxes?wait=180s", in)
	if o.Status != "succeeded" {
		t.Fatalf("create %v: %+v, error %+v", in, o, o.Error)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), callDeadline)
		defer cancel()
		if err := platform.client.DeleteSandbox(ctx, o.Sandbox.Id); err != nil {
			t.Errorf("delete the sandbox: %v", err)
		}
	})
	return *o.Sandbox
}

func shell(script string) client.SessionCreate {
	return client.SessionCreate{Shell: &script, User: ptr("root")}
}

// TestStopKeepsTheDisk stops and starts a sandbox: its files are there, its memory isn't, and while it's stopped it has no machine.
func TestStopKeepsTheDisk(t *testing.T) {
	s := create(t, "mini")
	runIn(t, s, shell("echo kept > /root/file; sleep 1000 & echo gone > /dev/shm/memory 2>/dev/null; true")).want(t, 0, "", "")
	before := session(t, s, shell("cat"))
	pid := vmm(t, s)
	if stopped := verb(t, s.Id, "stop"); stopped.State != "stopped" {
		t.Errorf("stopped: %+v", stopped)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("a stopped sandbox has a machine")
	}
	_, err := platform.client.CreateSession(t.Context(), s.Id, shell("true"))
	wantCode(t, err, "conflict")
	started := verb(t, s.Id, "start")
	if started.State != "running" || started.Execution.Epoch != s.Execution.Epoch+1 {
		t.Errorf("started: %+v", started)
	}
	runIn(t, s, shell("cat /root/file; ps | grep -c '[s]leep 1000'; true")).want(t, 0, "kept\n0\n", "")
	follow(t, before, func(client.Event) {}).want(t, 0, "", "") // it hadn't begun: it runs in the new machine
	// Once more, to the end of what a disk goes through.
	verb(t, s.Id, "stop")
	verb(t, s.Id, "start")
	runIn(t, s, shell("cat /root/file")).want(t, 0, "kept\n", "")
}

// TestLostIsStartedFromItsDisk kills a machine: the sandbox is lost until it's started, and what was written out is there.
func TestLostIsStartedFromItsDisk(t *testing.T) {
	s := create(t, "mini")
	runIn(t, s, shell("echo kept > /root/file; sync")).want(t, 0, "", "")
	if err := syscall.Kill(vmm(t, s), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "the sandbox is lost", func() bool {
		now, err := platform.client.GetSandbox(t.Context(), s.Id)
		return err == nil && now.State == "lost"
	})
	_, status := call[client.Error](t, "POST", "/v1/sandboxes/"+s.Id+"/stop", nil)
	if status != http.StatusConflict {
		t.Errorf("stop of a lost one: status %d", status)
	}
	if started := verb(t, s.Id, "start"); started.State != "running" || started.Execution.Epoch != 2 {
		t.Errorf("started: %+v", started)
	}
	runIn(t, s, shell("cat /root/file")).want(t, 0, "kept\n", "")
}

// TestAnyShape asks for a machine of another size: it has that size.
func TestAnyShape(t *testing.T) {
	s := createAs(t, map[string]any{"vcpus": 2, "memory_mb": 256, "disk_mb": 200})
	if s.Vcpus != 2 || s.MemoryMb != 256 || s.DiskMb != 200 {
		t.Errorf("%+v", s)
	}
	got := runIn(t, s, shell(`grep -c ^processor /proc/cpuinfo
m=$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo); [ $m -gt 190000 ] && [ $m -le 262144 ] && echo memory
d=$(df -k / | sed -n '$p' | sed 's/^[^ ]* *\([0-9]*\).*/\1/'); [ $d -gt 150000 ] && [ $d -le 204800 ] && echo disk`))
	got.want(t, 0, "2\nmemory\ndisk\n", "")
	if p, _ := call[map[string]any](t, "POST", "/v1/sandboxes", map[string]any{"template": "mini", "disk_mb": 64 - 1}); p["field"] != "disk_mb" {
		t.Errorf("a small disk: %v", p)
	}
}

// TestLifetimeEnds has a sandbox stopped at its deadline, and another kept by an update.
func TestLifetimeEnds(t *testing.T) {
	stopped := createAs(t, map[string]any{"lifetime": map[string]any{"seconds": 3600, "on_expiry": "stop"}})
	kept := createAs(t, map[string]any{"lifetime": map[string]any{"seconds": 3600, "on_expiry": "delete"}})
	for id, lifetime := range map[string]map[string]any{
		stopped.Id: {"deadline": time.Now().Add(2 * time.Second), "on_expiry": "stop"}, kept.Id: {"on_expiry": "none"},
	} {
		if _, status := call[client.Sandbox](t, "PATCH", "/v1/sandboxes/"+id, map[string]any{"lifetime": lifetime}); status != http.StatusOK {
			t.Fatalf("update: status %d", status)
		}
	}
	eventually(t, callDeadline, "the sandbox is stopped", func() bool {
		now, err := platform.client.GetSandbox(t.Context(), stopped.Id)
		return err == nil && now.State == "stopped"
	})
	if now, err := platform.client.GetSandbox(t.Context(), kept.Id); err != nil || now.State != "running" {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestEnvironmentOfASandbox has a variable below a session's own, and in no log.
func TestEnvironmentOfASandbox(t *testing.T) {
	s := createAs(t, map[string]any{"env": map[string]string{"A": "sandbox", "B": "sandbox"}})
	in := shell("echo $A $B")
	in.Env = &map[string]string{"B": "own"}
	runIn(t, s, in).want(t, 0, "sandbox own\n", "")
	if _, status := call[client.Sandbox](t, "PATCH", "/v1/sandboxes/"+s.Id, map[string]any{"env": map[string]string{"A": "later"}}); status != http.StatusOK {
		t.Fatalf("update: status %d", status)
	}
	runIn(t, s, shell("echo $A $B")).want(t, 0, "later\n", "")
}

// TestFigures waits for the first figures of a sandbox.
func TestFigures(t *testing.T) {
	s := create(t, "mini")
	type metrics struct {
		CPUSeconds float64 `json:"cpu_seconds"`
		Memory     int64   `json:"memory_bytes"`
		Guest      *struct {
			Total     int64 `json:"memory_total_bytes"`
			Processes int   `json:"processes"`
		} `json:"guest"`
	}
	eventually(t, callDeadline, "there are figures, from the host and in the guest", func() bool {
		m, status := call[metrics](t, "GET", "/v1/sandboxes/"+s.Id+"/metrics", nil)
		return status == http.StatusOK && m.CPUSeconds > 0 && m.Memory > 1<<20 && m.Guest != nil && m.Guest.Total > 64<<20 && m.Guest.Processes > 0
	})
	verb(t, s.Id, "stop")
	if p, status := call[map[string]any](t, "GET", "/v1/sandboxes/"+s.Id+"/metrics", nil); status != http.StatusConflict || !strings.Contains(p["detail"].(string), "stopped") {
		t.Errorf("figures of a stopped one: status %d, %v", status, p)
	}
}

// stopWith stops a sandbox whose processes have a grace.
func stopWith(t *testing.T, id, grace string) {
	t.Helper()
	o, status := call[client.Operation](t, "POST", "/v1/sandboxes/"+id+"/stop?wait=180s&grace="+grace, nil)
	if status != http.StatusOK || o.Status != "succeeded" {
		t.Fatalf("stop: status %d, operation %+v, error %+v", status, o, o.Error)
	}
}

// attached is a client that follows a session while the test goes on.
type attached struct {
	up   chan struct{} // closed when there is output
	done chan result
}

// beginFollowing attaches to a session and returns when it has printed something. Its events are shown to look.
func beginFollowing(t *testing.T, s client.SessionCreated, look func(client.Event)) attached {
	t.Helper()
	a := attached{up: make(chan struct{}), done: make(chan result, 1)}
	go func() {
		defer close(a.done)
		first := sync.OnceFunc(func() { close(a.up) })
		a.done <- follow(t, s, func(e client.Event) {
			if e.Type == client.EventStdout {
				first()
			}
			look(e)
		})
	}()
	await(t, a.up, "the session has printed something")
	return a
}

// again attaches to a session that was created before, from its beginning.
func again(t *testing.T, s client.SessionCreated) result {
	t.Helper()
	a, err := platform.client.CreateAttachment(t.Context(), s.Session.Sandbox, s.Session.Id)
	if err != nil {
		t.Fatal(err)
	}
	s.Attachment = a
	return follow(t, s, func(client.Event) {})
}

// TestEndedSessionsStay reads what sessions printed, and how they ended, while their sandbox is stopped or lost, after a start, and after another stop.
func TestEndedSessionsStay(t *testing.T) {
	for name, end := range map[string]func(*testing.T, client.Sandbox){
		"stopped": func(t *testing.T, s client.Sandbox) { stopWith(t, s.Id, "60s") },
		"lost": func(t *testing.T, s client.Sandbox) {
			if err := syscall.Kill(vmm(t, s), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, callDeadline, "the sandbox is lost", func() bool {
				now, err := platform.client.GetSandbox(t.Context(), s.Id)
				return err == nil && now.State == "lost"
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, "mini")
			ended := session(t, s, shell("echo out; echo err >&2; exit 3"))
			follow(t, ended, func(client.Event) {}).want(t, 3, "out\n", "err\n")
			running := session(t, s, shell("trap 'sleep 1; echo bye; exit 7' TERM; echo up; while :; do sleep 0.1; done"))
			a := beginFollowing(t, running, func(client.Event) {})
			end(t, s)
			check := func(who string, r result) {
				t.Helper()
				switch {
				case name == "stopped" && (string(r.stdout) != "up\nbye\n" || r.lost != nil || r.exit.Code != 7 || !r.exit.Stopped):
					t.Errorf("%s: it printed %q and ended with %+v, %v", who, r.stdout, r.exit, r.lost)
				case name == "lost" && (string(r.stdout) != "up\n" || r.lost == nil):
					t.Errorf("%s: it printed %q and ended with %+v, %v", who, r.stdout, r.exit, r.lost)
				}
			}
			check("who was attached", <-a.done)
			look := func(when string) {
				t.Helper()
				again(t, ended).want(t, 3, "out\n", "err\n")
				check(when, again(t, running))
				p, err := platform.client.Plane(t.Context(), s.Id)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close(t.Context())
				list, err := p.LiveSessions(t.Context())
				if err != nil || len(list) != 2 {
					t.Fatalf("%s: the list is %+v, %v", when, list, err)
				}
				for _, l := range list {
					if l.State != "ended" || l.Id == ended.Session.Id && (l.Code == nil || *l.Code != 3 || l.OutputBytes != 8) || l.Id == running.Session.Id && (l.Lost == nil) != (name == "stopped") {
						t.Errorf("%s: the list has %+v", when, l)
					}
				}
			}
			look("after the end")
			verb(t, s.Id, "start")
			look("after a start")
			verb(t, s.Id, "stop")
			look("after another stop")
		})
	}
}

// TestGraceOfAStop stops a sandbox with a process that won't end: it's killed when its grace is over, and one that has none isn't asked.
func TestGraceOfAStop(t *testing.T) {
	for grace, x := range map[string]struct {
		least time.Duration
		said  string
	}{"3s": {3 * time.Second, "up\nasked\n"}, "0s": {0, "up\n"}} {
		t.Run(grace, func(t *testing.T) {
			s := create(t, "mini")
			a := beginFollowing(t, session(t, s, shell("trap 'echo asked' TERM; echo up; while :; do sleep 0.1; done")), func(client.Event) {})
			began := time.Now()
			stopWith(t, s.Id, grace)
			if took := time.Since(began); took < x.least {
				t.Errorf("it took %s", took)
			}
			if r := <-a.done; r.exit.Signal != "SIGKILL" || !r.exit.Stopped || string(r.stdout) != x.said {
				t.Errorf("it printed %q and ended with %+v, %v", r.stdout, r.exit, r.lost)
			}
		})
	}
	_, status := call[client.Error](t, "POST", "/v1/sandboxes/"+create(t, "mini").Id+"/stop?grace=301s", nil)
	if status != http.StatusBadRequest {
		t.Errorf("a grace over the limit: status %d", status)
	}
}

// TestSlowClientGetsAllAfterAStop has a client take nothing from a session's first output on until its sandbox is stopped: more is under way then
// than connections and the guest hold.
func TestSlowClientGetsAllAfterAStop(t *testing.T) {
	const size = 14 << 20
	s := create(t, "mini")
	open := session(t, s, shell(fmt.Sprintf("trap '' TERM; echo up; head -c %d /dev/zero | tr '\\0' x; exit 5", size)))
	stopped := make(chan struct{})
	wait := sync.OnceFunc(func() { <-stopped })
	a := beginFollowing(t, open, func(e client.Event) {
		if e.Type == client.EventStdout {
			wait()
		}
	})
	release := sync.OnceFunc(func() { close(stopped) })
	defer release()
	stopWith(t, s.Id, "60s")
	release()
	r := <-a.done
	if want := append([]byte("up\n"), bytes.Repeat([]byte("x"), size)...); !bytes.Equal(r.stdout, want) || r.exit.Code != 5 || r.lost != nil {
		t.Errorf("it got %d bytes of %d, and %+v, %v", len(r.stdout), len(want), r.exit, r.lost)
	}
}
