//go:build e2e && firecracker

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestFirecracker plays on a platform whose machines run with the real Firecracker: 'make test-firecracker' makes it.
func TestFirecracker(t *testing.T) {
	n, err := platform.client.Node(t.Context())
	if err != nil || n.Driver != "firecracker" || !n.TenantBoundary {
		t.Fatalf("the node is %+v, %v", n, err)
	}
	t.Run("a life by hand", func(t *testing.T) {
		play(t, "testdata/firecracker_life.txtar")
		wantNoMachine(t)
	})
	t.Run("the jail", testFirecrackersJail)
	t.Run("a killed spaced-host", testKilledHost)
	t.Run("a killed machine", testKilledMachine)
	t.Run("memory page by page", testPaged)
	t.Run("a spaced-host killed while it creates", testHostKilledWhileCreating)
	t.Run("a spaced-host killed while it makes a snapshot", testHostKilledWhileSaving)
	t.Run("daemons killed in a suspend and a restore", TestKilledDaemonsInASuspend)
	wantNoMachine(t)
}

// wantNoMachine waits until no process, namespace or cgroup of a machine is left. The daemons have some of their own.
func wantNoMachine(t *testing.T) {
	t.Helper()
	var left []string
	look := func() bool {
		left = nil
		for _, part := range machineParts() {
			left = append(left, part.find()...)
		}
		return len(left) == 0
	}
	defer func() {
		if t.Failed() {
			t.Logf("left: %q", left)
		}
	}()
	eventually(t, callDeadline, "nothing of a machine is left", look)
}

// machinePart is something that the node makes for a machine.
type machinePart struct {
	name string
	find func() []string
}

// machineParts are all that a machine has, in the order in which they are made.
func machineParts() []machinePart {
	i := platform.instance
	paths := func(patterns ...string) func() []string { return func() []string { return existing(patterns...) } }
	first, last := i.VMUIDs()
	return []machinePart{
		{"record", paths(filepath.Join(i.Volume(), "executions/*"))},
		{"enclosure", paths(i.EnclosuresDir() + "/*")},
		{"cgroup", paths("/sys/fs/cgroup/"+i.Cgroup()+"/*/", "/sys/fs/cgroup/*/"+i.Cgroup()+"/*/")},
		{"namespace", paths(filepath.Join(instance.NetNSDir, i.Prefix()+"*"))},
		{"process", func() (all []string) {
			for _, p := range processes(func(uid int, _ string) bool { return uid >= first && uid <= last }) {
				all = append(all, commandLine(p))
			}
			return all
		}},
	}
}

// await waits until a part of some machine is there, which a machine that is fast enough has for a moment only.
func (p machinePart) await(t *testing.T) {
	t.Helper()
	eventually(t, callDeadline, "a machine has its "+p.name, func() bool { return len(p.find()) > 0 })
}

// testHostKilledWhileCreating kills spaced-host when a new machine has each of its parts. The sandbox runs all the same, or has failed and says why; it
// can be deleted, and nothing is left of it.
func testHostKilledWhileCreating(t *testing.T) {
	for _, part := range machineParts() {
		t.Run(part.name, func(t *testing.T) {
			wantNoMachine(t)
			op, err := platform.client.BeginCreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
			if err != nil || op.Sandbox == nil {
				t.Fatalf("%+v, %v", op, err)
			}
			part.await(t)
			kill(t, instance.Host)
			var s client.Sandbox
			eventually(t, 2*callDeadline, "the sandbox runs, or has failed", func() bool {
				s, err = platform.client.GetSandbox(t.Context(), op.Sandbox.Id)
				return err == nil && (s.State == "running" || s.State == "failed" || s.State == "lost")
			})
			t.Logf("it's %s, %+v", s.State, s.Error)
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

// testHostKilledWhileSaving kills spaced-host when the machine of a template that is built has its process, and when that is being saved. The build
// succeeds all the same, or has failed and says why; the next one succeeds.
func testHostKilledWhileSaving(t *testing.T) {
	state := filepath.Join(platform.instance.Volume(), "templates", "*.new", "state.bin")
	saved := machinePart{name: "device state in a file", find: func() []string { return existing(state) }}
	parts := machineParts()
	for _, part := range []machinePart{parts[len(parts)-1], saved} {
		t.Run(part.name, func(t *testing.T) {
			wantNoMachine(t)
			op, err := platform.client.BeginCreateTemplate(t.Context(), onMini("interrupted", client.TemplateStep{Run: ptr("echo made >/etc/made")}))
			if err != nil {
				t.Fatal(err)
			}
			part.await(t)
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
			wantReady(t, buildTemplate(t, onMini("again", client.TemplateStep{Run: ptr("echo made >/etc/made")})))
		})
	}
}

// existing are the paths that patterns match; one that ends with a slash matches directories only.
func existing(patterns ...string) (all []string) {
	for _, pattern := range patterns {
		plain, directories := strings.CutSuffix(pattern, "/") // with it nothing matches
		paths, _ := filepath.Glob(plain)                      // they have no mistake
		for _, p := range paths {
			if st, err := os.Stat(p); !directories || err == nil && st.IsDir() {
				all = append(all, p)
			}
		}
	}
	return all
}

// testFirecrackersJail looks at a machine's process from outside.
func testFirecrackersJail(t *testing.T) {
	s := create(t, "mini")
	p := vmm(t, s)
	if !strings.Contains(commandLine(p), "firecracker") {
		t.Errorf("the machine's process is %s", commandLine(p))
	}
	for field, want := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2", "Groups": "", "CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapAmb": "0000000000000000",
	} {
		if got := status(p, field); got != want {
			t.Errorf("its %s is %q, want %q", field, got, want)
		}
	}
}

// testKilledHost kills spaced-host in the middle of a session: machine and output are what they were.
func testKilledHost(t *testing.T) {
	s := create(t, "mini")
	wantUnharmed(t, s)
}

// wantUnharmed kills spaced-host while a session prints. Nothing of the output is missing, and the machine's processes are those that it had.
func wantUnharmed(t *testing.T, s client.Sandbox) {
	t.Helper()
	before, killed := processesOf(t, s), false
	follow(t, session(t, s, client.SessionCreate{Shell: ptr(counting)}), func(e client.Event) {
		if e.Offset > 500 && !killed {
			killed = true
			kill(t, instance.Host)
		}
	}).want(t, 0, counted(), "")
	if after := processesOf(t, s); !killed || !slices.Equal(before, after) {
		t.Errorf("killed: %v; the machine's processes were %d and are %d", killed, before, after)
	}
}

// testPaged has machines' memory come page by page. A killed spaced-host harms neither the machine nor its pager; without its pager the machine is lost, and
// said so.
func testPaged(t *testing.T) {
	path := platform.instance.ConfigFile()
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		kill(t, instance.Host) // it reads that when it starts
	}
	configure(append(config[:len(config):len(config)], "restored_memory = \"paged\"\n"...))
	defer configure(config)
	s := create(t, "mini")
	wantUnharmed(t, s)
	var pager int
	for _, p := range processesOf(t, s) {
		if strings.Contains(commandLine(p), " pager") {
			pager = p
		}
	}
	if pager == 0 {
		t.Fatal("the machine has no pager")
	}
	if err := syscall.Kill(pager, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitLost(t, s)
}

// testKilledMachine: it's lost, said so, and what it held is free; what is on its disk isn't lost.
func testKilledMachine(t *testing.T) {
	s := create(t, "mini")
	runIn(t, s, client.SessionCreate{Shell: ptr("echo kept >note; sync")}).want(t, 0, "", "")
	label := home(t, s)
	if err := syscall.Kill(vmm(t, s), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitLost(t, s)
	eventually(t, callDeadline, "what the machine held is free", func() bool { return len(held(label)) == 0 })
	_, err := platform.client.CreateSession(t.Context(), s.Id, client.SessionCreate{Argv: argv("true")})
	wantCode(t, err, "execution_lost")
	if _, code := space(t, "sandbox", "start", s.Id); code != 0 {
		t.Fatalf("start from the disk: exit %d", code)
	}
	runIn(t, s, client.SessionCreate{Argv: argv("cat", "note")}).want(t, 0, "kept\n", "")
}
