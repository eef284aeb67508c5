//go:build e2e && firecracker

package e2e

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestFirecracker plays on a platform whose machines run with the real Firecracker: 'make test-firecracker' makes it.
func TestFirecracker(t *testing.T) {
	mustBeFirecracker(t)
	t.Run("a life by hand", func(t *testing.T) {
		play(t, "testdata/firecracker_life.txtar")
		wantNoMachine(t)
	})
	t.Run("the jail", testFirecrackersJail)
	t.Run("a killed spaced-host", testKilledHost)
	t.Run("a killed machine", testKilledMachine)
	t.Run("memory page by page", testPaged)
	t.Run("killed in a create", testKilledInACreate)
	t.Run("killed in a template's build", testKilledInABuild)
	t.Run("daemons killed in a suspend and a restore", TestKilledDaemonsInASuspend)
	wantNoMachine(t)
}

// TestFirecrackersHarm is what befalls sandboxes and their snapshots on such a platform, step by step.
func TestFirecrackersHarm(t *testing.T) {
	mustBeFirecracker(t)
	t.Run("a full disk", testFullDisk)
	t.Run("damaged snapshots", testDamagedSnapshots)
	t.Run("killed in a verb", testKilledInAVerb)
	wantNoMachine(t)
}

func mustBeFirecracker(t *testing.T) {
	t.Helper()
	n, err := platform.client.Node(t.Context())
	if err != nil || n.Driver != "firecracker" || !n.TenantBoundary {
		t.Fatalf("the node is %+v, %v", n, err)
	}
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
