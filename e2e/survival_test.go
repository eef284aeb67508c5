//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestKilledMachineIsLost: within two seconds the sandbox is lost, its stream says so, and what its machine held is free.
func TestKilledMachineIsLost(t *testing.T) {
	s := create(t, "mini")
	pid, label := vmm(t, s), home(t, s)
	open := beginFollowing(t, session(t, s, client.SessionCreate{Shell: ptr("echo here; sleep 1000")}), func(client.Event) {})
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, "the sandbox is lost", func() bool {
		got, err := platform.client.GetSandbox(t.Context(), s.Id)
		return err == nil && got.State == "lost" && got.Error != nil && got.Error.Code == "execution_lost"
	})
	t.Logf("lost after %s", time.Since(killed))
	if r := <-open.done; r.lost == nil || r.lost.Code != "execution_lost" {
		t.Errorf("the stream ended with %+v, want a lost event with code execution_lost", r)
	}
	eventually(t, 5*time.Second, "what the machine held is free", func() bool { return len(held(label)) == 0 })
	_, err := platform.client.CreateSession(t.Context(), s.Id, client.SessionCreate{Argv: argv("true")})
	wantCode(t, err, "execution_lost")
}

// held lists what a machine occupies beyond its disk, by the name of its enclosure.
func held(label string) []string {
	var out []string
	for _, pattern := range []string{
		filepath.Join(instance.NetNSDir, platform.instance.Prefix()+label+"*"),
		"/sys/fs/cgroup/*/" + platform.instance.Cgroup() + "/*" + label + "*", "/sys/fs/cgroup/" + platform.instance.Cgroup() + "/*" + label + "*",
	} {
		paths, _ := filepath.Glob(pattern)
		out = append(out, paths...)
	}
	return out
}

// counting prints a line every few milliseconds; a lost or repeated one shows.
const counting = `i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); usleep 5000; done`

func counted() string { return numbered(400) }

// numbered is what a loop prints that counts its lines.
func numbered(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestKilledDaemonsLoseNothing kills each daemon in the middle of a session: the machine goes on and the output is exact.
func TestKilledDaemonsLoseNothing(t *testing.T) {
	for _, r := range []instance.Role{instance.Host, instance.Manager, instance.NodeAPI, instance.Edge, instance.API, instance.Postgres} {
		t.Run(string(r), func(t *testing.T) {
			s := create(t, "mini")
			machine := vmm(t, s)
			killed := false
			got := follow(t, session(t, s, client.SessionCreate{Shell: ptr(counting)}), func(e client.Event) {
				if e.Offset > 500 && !killed {
					killed = true
					kill(t, r)
				}
			})
			got.want(t, 0, counted(), "")
			if !killed {
				t.Fatal("the session ended before the kill")
			}
			if again := vmm(t, s); again != machine {
				t.Errorf("the machine's process was %d and is %d", machine, again)
			}
			runIn(t, s, client.SessionCreate{Argv: argv("echo", "still here")}).want(t, 0, "still here\n", "")
		})
	}
}

// TestKilledDaemonsBelowTheCommandLine kills each daemon below one command whose input comes while it runs: both directions are exact, and nobody has to do anything.
func TestKilledDaemonsBelowTheCommandLine(t *testing.T) {
	s := create(t, "mini")
	ctx, cancel := context.WithTimeout(t.Context(), 3*callDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, platform.binary, "exec", "-i", "--instance", platform.instance.Name, s.Id, "cat")
	cmd.Stderr = testWriter{t}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, echo := 0, bufio.NewScanner(out)
	exchange := func(meanwhile func()) {
		for range 5 {
			said++
			fmt.Fprintln(in, "line", said)
		}
		meanwhile()
		for n := said - 4; n <= said; n++ {
			if want := fmt.Sprint("line ", n); !echo.Scan() || echo.Text() != want {
				t.Fatalf("it says %q, want %q: %v", echo.Text(), want, echo.Err())
			}
		}
	}
	exchange(func() {})
	for _, r := range everyRole {
		exchange(func() { kill(t, r) })
		exchange(func() {})
	}
	in.Close()
	if echo.Scan() {
		t.Errorf("it goes on with %q", echo.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the command line: %v", err)
	}
}

// role is what `space status -o json` says of one.
type role struct {
	Role string `json:"role"`
	PID  int    `json:"pid"`
}

func roles(t *testing.T) map[instance.Role]int {
	t.Helper()
	return rolesOf(t, platform.instance)
}

func rolesOf(t *testing.T, i instance.Instance) map[instance.Role]int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), platform.binary, "status", "-o", "json", "--instance", i.Name)
	out, _ := cmd.Output() // the exit code tells
	code := cmd.ProcessState.ExitCode()
	var status struct {
		Roles []role `json:"roles"`
	}
	if err := json.Unmarshal(out, &status); err != nil || code > 1 {
		t.Fatalf("space status: exit %d: %v: %s", code, err, out)
	}
	pids := map[instance.Role]int{}
	for _, r := range status.Roles {
		pids[instance.Role(r.Role)] = r.PID
	}
	return pids
}

// kill ends a role with SIGKILL and waits until the supervisor has started another.
func kill(t *testing.T, r instance.Role) {
	t.Helper()
	end(t, r, syscall.SIGKILL)
}

// end ends a role with a signal and waits until the supervisor has started another.
func end(t *testing.T, r instance.Role, with syscall.Signal) {
	t.Helper()
	before := roles(t)[r]
	if before == 0 {
		t.Fatalf("role %s has no process", r)
	}
	if err := syscall.Kill(before, with); err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "role "+string(r)+" is started again", func() bool {
		now := roles(t)[r]
		return now != 0 && now != before
	})
}

// TestDeadSupervisorHarmsNothing: the roles live on, and the next `space up` takes them over as they are.
func TestDeadSupervisorHarmsNothing(t *testing.T) {
	s := create(t, "mini")
	before := roles(t)
	pid := supervisor(t)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	runIn(t, s, client.SessionCreate{Argv: argv("echo", "unharmed")}).want(t, 0, "unharmed\n", "")
	if _, code := space(t, "up"); code != 0 {
		t.Fatalf("space up: exit %d", code)
	}
	for r, was := range before {
		if now := roles(t)[r]; now != was && r != instance.Supervisor {
			t.Errorf("role %s: process %d became %d", r, was, now)
		}
	}
	if now := supervisor(t); now == pid {
		t.Error("no new supervisor")
	}
	kill(t, instance.Edge) // and the new one keeps what it took over
}

func supervisor(t *testing.T) int {
	t.Helper()
	pids := processes(func(_ int, cmd string) bool {
		return strings.Contains(cmd, string(instance.Supervisor)+" --instance "+platform.instance.Name)
	})
	if len(pids) != 1 {
		t.Fatalf("supervisors: %v, want one", pids)
	}
	return pids[0]
}

// TestNothingIsLeftOfADeletedSandbox looks for what a sandbox had after its delete has ended.
func TestNothingIsLeftOfADeletedSandbox(t *testing.T) {
	s, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	if err != nil {
		t.Fatal(err)
	}
	pid, label := vmm(t, s), home(t, s)
	if len(held(label)) == 0 {
		t.Fatal("the test looks in the wrong place: a running sandbox holds nothing")
	}
	for range 2 { // twice: `deleted` answers like success
		if err := platform.client.DeleteSandbox(t.Context(), s.Id); err != nil {
			t.Fatal(err)
		}
	}
	if left := held(label); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Errorf("the VMM %d is still there", pid)
	}
	execution := strings.TrimPrefix(s.Execution.Id, "exe_")
	filepath.WalkDir(platform.instance.DataDir(), func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, label) || strings.Contains(path, execution) {
			t.Errorf("left over: %s", path)
		}
		return nil
	})
}
