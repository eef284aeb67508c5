//go:build e2e

package redteam

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/instance"
)

// neighbourDeadline is how long another sandbox, or the management API, may take to answer while one is being abused: some tens of milliseconds on a
// quiet machine, and what a machine that runs everything in software emulation with others needs.
const neighbourDeadline = 15 * time.Second

// attackProgram builds the program of redteam/attack once, static.
var attackProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "attack")
	if err != nil {
		return "", err
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", filepath.Join(dir, "attack"), "./attack")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the attack: %w\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "attack"))
	os.RemoveAll(dir)
	return string(b), err
})

// target makes a sandbox of its own for a test that may ruin it.
func target(t *testing.T) sandbox {
	t.Helper()
	s := newSandbox(t)
	t.Cleanup(func() {
		ask(t, "DELETE", platform.api+"/v1/sandboxes/"+s.id+"?wait=60s", platform.owner, "").want(t, 200, 202)
	})
	return s
}

// armed is a target with the attack in it.
func armed(t *testing.T) sandbox {
	t.Helper()
	s := target(t)
	program, err := attackProgram()
	if err != nil {
		t.Fatal(err)
	}
	ask(t, "PUT", s.file("/tmp/attack", "root")+"&mode=0755", s.token, program, "Content-Type", "application/octet-stream").want(t, 200, 201)
	return s
}

// begin starts a shell script as root, and follows it until its machine or it has ended, or the test has.
func (s sandbox) begin(t *testing.T, script string) (said func() string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"shell": script, "user": "root"})
	if err != nil {
		t.Fatal(err)
	}
	made := s.session(t, string(body))
	var mu sync.Mutex
	var out strings.Builder
	events := follow(t, made.Attachment.Url, made.Attachment.Token)
	go func() {
		for e := range events {
			mu.Lock()
			switch e.name {
			case "stdout", "stderr":
				out.WriteString(e.bytes(t))
			case "exit", "lost", "ended":
				out.WriteString("[" + e.name + " " + e.data + "]")
			}
			mu.Unlock()
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
}

// state is what the platform says of a sandbox.
func (s sandbox) state(t *testing.T) gen.Sandbox {
	t.Helper()
	return decode[gen.Sandbox](t, ask(t, "GET", platform.api+"/v1/sandboxes/"+s.id, platform.owner, "").want(t, 200))
}

// metrics are a sandbox's figures.
func (s sandbox) metrics(t *testing.T) gen.Metrics {
	t.Helper()
	var a reply
	eventually(t, callDeadline, "the node tells a sandbox's figures", func() bool {
		a = ask(t, "GET", platform.api+"/v1/sandboxes/"+s.id+"/metrics", platform.owner, "")
		return a.status != 503
	})
	return decode[gen.Metrics](t, a.want(t, 200))
}

// unharmed runs an attack, and holds that meanwhile and afterwards a neighbour and the management API answer in time, and that no process of the
// platform is another one than before.
func unharmed(t *testing.T, attack func()) {
	t.Helper()
	_, other := boxes(t)
	before := roles(t)
	answers(t, other) // or the test proves nothing
	attack()
	answers(t, other)
	for role, pid := range roles(t) {
		if pid != before[role] {
			t.Errorf("%s was process %d and is %d", role, before[role], pid)
		}
	}
}

// answers runs a command in a sandbox that isn't attacked.
func answers(t *testing.T, s sandbox) {
	t.Helper()
	began := time.Now()
	if out := s.run(t, `{"argv":["echo","here"]}`); out.stdout != "here\n" {
		t.Errorf("the neighbour says %q and ends with %+v", out.stdout, out.exit)
	}
	if took := time.Since(began); took > neighbourDeadline {
		t.Errorf("the neighbour took %s, want at most %s", took, neighbourDeadline)
	} else {
		t.Logf("the neighbour took %s", took.Round(time.Millisecond))
	}
}

// agentAnswers asks a guest under attack for a file, which its agent reads without a process of its own.
func (s sandbox) agentAnswers(t *testing.T) {
	t.Helper()
	began := time.Now()
	ask(t, "GET", s.file("/etc/passwd", "root"), s.token, "").want(t, 200)
	t.Logf("the agent took %s", time.Since(began).Round(time.Millisecond))
}

// contained holds that a sandbox goes on, or that its loss is said as one.
func (s sandbox) contained(t *testing.T) {
	t.Helper()
	eventually(t, callDeadline, "the sandbox answers, or is lost", func() bool {
		a := ask(t, "GET", s.file("/etc/passwd", "root"), s.token, "")
		if a.status == 200 {
			return true
		}
		now := s.state(t)
		return now.State == "lost" && now.Error != nil && now.Error.Code == "execution_lost" && a.code() == "execution_lost"
	})
	t.Logf("the sandbox is %s", s.state(t).State)
}

// roles are the platform's processes.
func roles(t *testing.T) map[string]int {
	t.Helper()
	binary, err := filepath.Abs("../bin/space")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "status", "-o", "json", "--instance", platform.instance.Name).Output()
	if err != nil {
		t.Fatalf("space status: %v", err)
	}
	var status struct {
		Roles []struct {
			Role string
			PID  int
		}
	}
	if err := json.Unmarshal(out, &status); err != nil {
		t.Fatal(err)
	}
	pids := map[string]int{}
	for _, r := range status.Roles {
		pids[r.Role] = r.PID
	}
	if pids[string(instance.Host)] == 0 {
		t.Fatalf("the platform's status is %s", out)
	}
	return pids
}

// resident is how many bytes of memory a role's process has.
func resident(t *testing.T, role instance.Role) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", roles(t)[string(role)]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatalf("no VmRSS in %s", b)
	return 0
}
