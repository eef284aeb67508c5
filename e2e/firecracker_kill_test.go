//go:build e2e && firecracker

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// part is something that the node makes for a machine or a snapshot, and by which a step of its work is known.
type part struct {
	name string
	find func() []string
}

// parts are those of which one comes after the other.
type parts []part

// machineParts are all that a machine has: its program is the jailer at first, and then Firecracker.
func machineParts() parts {
	i := platform.instance
	first, last := i.VMUIDs()
	within := func(path string) func() []string {
		return func() (all []string) {
			for _, p := range programs() {
				all = append(all, existing(fmt.Sprintf("/proc/%d/root%s", p, path))...)
			}
			return all
		}
	}
	return parts{
		{"record", paths(filepath.Join(i.Volume(), "executions/*"))},
		{"enclosure", paths(i.EnclosuresDir() + "/*")},
		{"cgroup", paths("/sys/fs/cgroup/"+i.Cgroup()+"/*/", "/sys/fs/cgroup/*/"+i.Cgroup()+"/*/")},
		{"namespace", paths(filepath.Join(instance.NetNSDir, i.Prefix()+"*"))},
		{"program", within("")},
		{"process", func() (all []string) {
			for _, p := range processes(func(uid int, _ string) bool { return uid >= first && uid <= last }) {
				all = append(all, commandLine(p))
			}
			return all
		}},
		{"API", within("/run/api.sock")},
		{"link", within("/run/link.sock")},
	}
}

// snapshotParts are all that a snapshot has.
func snapshotParts() parts {
	dir := filepath.Join(platform.instance.Volume(), "snapshots")
	file := func(name string) func() []string {
		return func() (all []string) { // whether the snapshot has its name yet or not
			for _, path := range existing(filepath.Join(dir, "*", name)) {
				all = append(all, strings.Replace(path, ".new/", "/", 1))
			}
			return all
		}
	}
	return parts{
		{"directory", file(".")},
		{"memory", file("mem.img")},
		{"device state", file("state.bin")},
		{"disk", file("disk.img")},
		{"manifest", file("manifest.json")},
		{"name", func() []string {
			return slices.DeleteFunc(existing(filepath.Join(dir, "*")), func(path string) bool { return strings.HasSuffix(path, ".new") })
		}},
	}
}

func paths(patterns ...string) func() []string {
	return func() []string { return existing(patterns...) }
}

// only are those with a name.
func (all parts) only(names ...string) parts {
	return slices.DeleteFunc(slices.Clone(all), func(p part) bool { return !slices.Contains(names, p.name) })
}

// started are those that a machine has once its program runs.
func (all parts) started() parts { return all.only("program", "process", "API", "link") }

// moment returns when there is one more of the part than now, which one that is fast enough has for a moment only. It must be there when the verb is answered.
func (p part) moment(t *testing.T) func(answered <-chan struct{}) {
	were := p.find()
	isThere := func() bool {
		return slices.ContainsFunc(p.find(), func(s string) bool { return !slices.Contains(were, s) })
	}
	return func(answered <-chan struct{}) {
		t.Helper()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		end := time.NewTimer(callDeadline)
		defer end.Stop()
		for !isThere() {
			select {
			case <-tick.C:
			case <-answered:
				if !isThere() {
					t.Logf("nobody has seen its %s", p.name)
				}
				return
			case <-end.C:
				t.Errorf("not within %s: a %s", callDeadline, p.name)
				return
			}
		}
	}
}

// testKilledInACreate kills spaced-host when a new machine has each of its parts, and the jailer or Firecracker. The sandbox runs all the same, or has
// failed and says why; it can be deleted, and nothing is left of it.
func testKilledInACreate(t *testing.T) {
	for victim, steps := range map[instance.Role]parts{instance.Host: machineParts(), loadedVictim: machineParts().started()} {
		for _, p := range steps {
			t.Run(string(victim)+"/"+p.name, func(t *testing.T) {
				wantNoMachine(t)
				when := p.moment(t)
				op, err := platform.client.BeginCreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
				if err != nil || op.Sandbox == nil {
					t.Fatalf("%+v, %v", op, err)
				}
				when(nil)
				var killed []int
				if victim == instance.Host {
					kill(t, instance.Host)
				} else if killed = programs(); len(killed) == 0 {
					t.Error("there is nothing to kill")
				}
				for _, p := range killed {
					_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended by itself
				}
				s := awaitEnded(t, op.Sandbox.Id, killed)
				t.Logf("it's %s%s", s.State, why(s))
				if s.State == "running" {
					runIn(t, s, client.SessionCreate{Argv: argv("echo", "well")}).want(t, 0, "well\n", "")
				} else if s.Error == nil || s.Error.Code == "" {
					t.Errorf("it doesn't say why: %+v", s)
				}
				if err := platform.client.DeleteSandbox(t.Context(), s.Id); err != nil {
					t.Error(err)
				}
				wantNoMachine(t)
			})
		}
	}
}

// why is the code of what has happened to a sandbox.
func why(s client.Sandbox) string {
	if s.Error == nil {
		return ""
	}
	return ", " + string(s.Error.Code)
}

// awaitEnded waits until a creation has ended: the sandbox runs, in another process than those that were killed, or it doesn't.
func awaitEnded(t *testing.T, id string, killed []int) (s client.Sandbox) {
	t.Helper()
	eventually(t, 2*callDeadline, "the sandbox runs, or has failed", func() bool {
		var err error
		s, err = platform.client.GetSandbox(t.Context(), id)
		switch {
		case err != nil:
			return false
		case s.State == "running":
			return slices.ContainsFunc(programs(), func(p int) bool { return !slices.Contains(killed, p) })
		default:
			return s.State == "failed" || s.State == "lost"
		}
	})
	return s
}

// testKilledInABuild kills spaced-host when the machine of a template that is built has its process, and when that is being saved. The build succeeds
// all the same, or has failed and says why; the next one succeeds.
func testKilledInABuild(t *testing.T) {
	saved := part{"device state", paths(filepath.Join(platform.instance.Volume(), "templates", "*.new", "state.bin"))}
	for _, p := range append(machineParts().only("process"), saved) {
		t.Run(p.name, func(t *testing.T) {
			wantNoMachine(t)
			when := p.moment(t)
			op, err := platform.client.BeginCreateTemplate(t.Context(), onMini("interrupted", client.TemplateStep{Run: ptr("echo made >/etc/made")}))
			if err != nil {
				t.Fatal(err)
			}
			when(nil)
			kill(t, instance.Host)
			eventually(t, 2*callDeadline, "the build has ended", func() bool {
				now, err := platform.client.GetOperation(t.Context(), op.Id, 0)
				if err == nil {
					op = now
				}
				return op.Status != gen.OperationStatusRunning
			})
			t.Logf("the build has %s, %+v", op.Status, op.Error)
			if op.Status == gen.OperationStatusFailed && (op.Error == nil || op.Error.Code == "") {
				t.Errorf("it doesn't say why: %+v", op)
			}
			if err := platform.client.DeleteTemplate(t.Context(), op.Template.Id); err != nil {
				t.Error(err)
			}
			wantNoMachine(t)
			if left := existing(filepath.Join(platform.instance.Volume(), "templates", "*.new")); len(left) > 0 {
				t.Errorf("what was begun is left: %q", left)
			}
		})
	}
	wantReady(t, buildTemplate(t, onMini("again", client.TemplateStep{Run: ptr("echo made >/etc/made")})))
}

// testKilledInAVerb kills spaced-host, a sandbox's machine, and the jailer and Firecracker of the next one, at each step of a suspend and a restore, and at some of a
// snapshot, a fork and a rollback, which have the same steps. Afterwards the sandbox is what it was or what it was to be, with all that it had, and when all
// is deleted nothing is left.
func testKilledInAVerb(t *testing.T) {
	m, s := machineParts(), snapshotParts()
	for _, c := range []struct {
		verb   killedVerb
		victim instance.Role
		steps  parts
	}{
		{killedSuspend, instance.Host, s},
		{killedSuspend, machineVictim, s},
		{killedRestore, instance.Host, append(m.only("record"), m.started()...)},
		{killedRestore, loadedVictim, m.started()},
		{killedSnapshot, instance.Host, s.only("device state", "name")},
		{killedSnapshot, machineVictim, s.only("device state")},
		{killedFork, instance.Host, m.only("program")},
		{killedFork, loadedVictim, m.only("program")},
		{killedRollback, instance.Host, m.only("link")},
		{killedRollback, loadedVictim, m.only("API")},
	} {
		for _, p := range c.steps {
			t.Run(c.verb.name+"/"+string(c.victim)+"/"+p.name, func(t *testing.T) {
				x := newTrial(t, c.victim)
				x.begin(c.verb)
				now, step := x.do(c.verb, p.moment(t))
				t.Logf("there was %s; it's %s%s", step, now.State, why(now))
				c.verb.after(x, now)
			})
		}
	}
	(&trial{t: t}).nothingLeft()
	wantNoMachine(t)
}
