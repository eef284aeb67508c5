//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/instance"
)

// callDeadline bounds a thing that a test waits for; generous, since software emulation on a loaded machine is slow. SPACE_TEST_CPU_FACTOR makes it so
// much longer, where all of the platform runs under emulation.
var callDeadline = time.Duration(cpuFactor() * float64(60*time.Second))

func cpuFactor() float64 {
	f, _ := strconv.ParseFloat(os.Getenv("SPACE_TEST_CPU_FACTOR"), 64)
	return max(f, 1)
}

// platform is the instance under test.
var platform struct {
	instance instance.Instance
	binary   string // bin/space of this checkout, or of the directory SPACE_E2E_BIN
	url, key string
	client   *client.Client
	traces   *collector
}

var keep = flag.Bool("keep", false, "leave the platform running after the tests")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	name := os.Getenv("SPACE_E2E_INSTANCE")
	if name == "" {
		name = "e2e"
	}
	platform.traces = startCollector()
	defer platform.traces.server.Close()
	if err := start(name); err != nil {
		fmt.Fprintln(os.Stderr, "start the platform under test:", err)
		return 1
	}
	code := m.Run()
	_ = buildBase() // a test that needs it has said what was wrong
	if *keep {
		return code
	}
	if err := remove(name); err != nil {
		fmt.Fprintln(os.Stderr, "remove the platform under test:", err)
		return 1
	}
	return code
}

// configure lets the platform under test pull from the tests' own registries, which are on this machine: by its address without TLS, and by its name
// with TLS. And it gives it the pool, the tests' own collector of traces, and what SPACE_E2E_CONFIG says: more lines of its configuration.
func configure(i instance.Instance) error {
	if err := os.MkdirAll(i.DataDir(), 0o755); err != nil {
		return err
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return os.WriteFile(i.ConfigFile(), fmt.Appendf(nil, "insecure_registries = [\"127.0.0.1\"]\nallowed_registries = [%q]\npool_size = %q\notlp_endpoint = %q\n%s\n",
		name, poolSize(), platform.traces.server.URL, os.Getenv("SPACE_E2E_CONFIG")), 0o644)
}

// poolSize is the pool of the platform under test: SPACE_E2E_POOL, or what is usual.
func poolSize() string { return cmp.Or(os.Getenv("SPACE_E2E_POOL"), string(instance.PoolAuto)) }

// pooled tells whether machines wait for sandboxes in the platform under test.
func pooled() bool { return poolSize() != "0" }

// upTries is how often a platform is started that isn't up when 'space up' no longer waits, where all of it runs under emulation: what it has begun goes
// on. Elsewhere a start that fails is a failure.
const upTries = 4

// up starts the platform. SPACE_E2E_UP has more flags.
func up(name string) (err error) {
	tries := 1
	if cpuFactor() > 1 {
		tries = upTries
	}
	for range tries {
		if err = show(append([]string{"up", "--instance", name}, strings.Fields(os.Getenv("SPACE_E2E_UP"))...)...); err == nil {
			return nil
		}
	}
	return errors.Join(err, show("status", "--instance", name))
}

// start makes the platform.
func start(name string) error {
	binary, err := filepath.Abs(filepath.Join(cmp.Or(os.Getenv("SPACE_E2E_BIN"), "../bin"), "space")) // of the checkout, of an L1 (hack/test-firecracker), or mutants
	if err != nil {
		return err
	}
	platform.binary = binary
	if err := configure(instance.Instance{Name: name}); err != nil {
		return err
	}
	if err := up(name); err != nil {
		return err
	}
	buildBase = func() error { return errors.New("SPACE_E2E_TEMPLATES doesn't name it") }
	for _, template := range templates() {
		if template == "base" {
			buildBase = inBackground(func() error { return show("template", "build", template, "--instance", name) })
			continue
		}
		if err := show("template", "build", template, "--instance", name); err != nil {
			return err
		}
	}
	if platform.instance, err = instance.Find(name); err != nil {
		return err
	}
	c, err := cli.Load(cli.Overrides{Instance: name})
	if err != nil {
		return err
	}
	platform.url, platform.key = c.URL, c.APIKey
	platform.client, err = client.New(c.URL, c.APIKey)
	return err
}

// buildBase waits for the template base, which takes long: it's built while the first tests run, which do without.
var buildBase func() error

func needsBase(t *testing.T) {
	t.Helper()
	if err := buildBase(); err != nil {
		t.Fatalf("build the template base: %v", err)
	}
}

// inBackground starts something and returns what waits for its end.
func inBackground(do func() error) func() error {
	ended, err := make(chan struct{}), error(nil)
	go func() {
		defer close(ended)
		err = do()
	}()
	return func() error { <-ended; return err }
}

// templates are those that the tests need. SPACE_E2E_TEMPLATES names fewer, for who runs some of the tests.
func templates() []string {
	if names := os.Getenv("SPACE_E2E_TEMPLATES"); names != "" {
		return strings.Fields(names)
	}
	return []string{"mini", "base"}
}

// remove ends the platform; what is left of it after that is an error.
func remove(name string) error {
	if err := show("purge", "--yes", "--instance", name); err != nil {
		return err
	}
	return errors.Join(leftovers(platform.instance)...)
}

// show runs a command of the platform's with its output on ours.
func show(args ...string) error {
	cmd := exec.Command(platform.binary, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("space %v: %w", args, err)
	}
	return nil
}

// space runs a command of the platform's and returns its output.
func space(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, platform.binary, append(args[:len(args):len(args)], "--instance", platform.instance.Name)...)
	if cut := index(args, "--"); cut >= 0 {
		cmd = exec.CommandContext(ctx, platform.binary, append(append(args[:cut:cut], "--instance", platform.instance.Name), args[cut:]...)...)
	}
	cmd.Stderr = testWriter{t}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("space %v: %v", args, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func index(args []string, s string) int {
	for i, a := range args {
		if a == s {
			return i
		}
	}
	return -1
}

// testWriter sends a command's messages to the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// create makes a sandbox that lives as long as the test.
func create(t *testing.T, template string) client.Sandbox {
	t.Helper()
	if template == "base" {
		needsBase(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	s, err := platform.client.CreateSandbox(ctx, client.SandboxCreate{Template: template})
	if err != nil {
		t.Fatalf("create a sandbox: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), callDeadline)
		defer cancel()
		if err := platform.client.DeleteSandbox(ctx, s.Id); err != nil {
			t.Errorf("delete the sandbox: %v", err)
		}
	})
	return s
}

func session(t *testing.T, s client.Sandbox, in client.SessionCreate) client.SessionCreated {
	t.Helper()
	created, err := platform.client.CreateSession(t.Context(), s.Id, in)
	if err != nil {
		t.Fatalf("create a session: %v", err)
	}
	return created
}

// result is all that a session has said.
type result struct {
	stdout, stderr []byte
	exit           client.Exit
	lost           *client.Error
	at             int64 // how much of its output there is
}

// runIn runs a session to its end.
func runIn(t *testing.T, s client.Sandbox, in client.SessionCreate) result {
	t.Helper()
	return follow(t, session(t, s, in), func(client.Event) {})
}

// follow attaches to a session and reads it to its end; each event is shown to look.
func follow(t *testing.T, s client.SessionCreated, look func(client.Event)) result {
	t.Helper()
	return followOn(t, platform.client, s, look)
}

// followOn is follow on a platform that isn't the one under test.
func followOn(t *testing.T, c *client.Client, s client.SessionCreated, look func(client.Event)) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	var r result
	for !r.read(t, c.Attach(ctx, s.Session, s.Attachment, client.FromOffset(r.at)), look) {
		if ctx.Err() != nil {
			t.Fatalf("the session hasn't ended within %s", callDeadline)
		}
	}
	return r
}

// read reads a session's events. It's false if the client has given up for now where all of the platform runs under emulation: a daemon takes longer to
// come back there than the client is patient.
func (r *result) read(t *testing.T, events iter.Seq2[client.Event, error], look func(client.Event)) bool {
	t.Helper()
	for e, err := range events {
		var refused *client.Error
		if cpuFactor() > 1 && errors.As(err, &refused) && (refused.Code == "unavailable" || refused.Code == "timeout") {
			return false
		}
		if err != nil {
			t.Fatalf("attach: %v", err)
		}
		switch e.Type {
		case client.EventStdout:
			r.stdout = append(r.stdout, e.Data...)
		case client.EventStderr:
			r.stderr = append(r.stderr, e.Data...)
		case client.EventGap:
			t.Fatalf("a gap from %d to %d", e.From, e.Offset)
		case client.EventExit:
			r.exit = e.Exit
		case client.EventLost:
			r.lost = e.Lost
		}
		r.at = max(r.at, e.Offset)
		look(e)
	}
	return true
}

func (r result) want(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.lost != nil {
		t.Fatalf("lost: %v", r.lost)
	}
	if r.exit.Code != code || r.exit.Signal != "" || r.exit.Error != "" {
		t.Errorf("exit %+v, want code %d; stderr %q", r.exit, code, clip(r.stderr))
	}
	if string(r.stdout) != stdout {
		t.Errorf("stdout %q, want %q", clip(r.stdout), clip([]byte(stdout)))
	}
	if string(r.stderr) != stderr {
		t.Errorf("stderr %q, want %q", clip(r.stderr), clip([]byte(stderr)))
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}

// eventually asks until it's so; the thing asked about has no event to wait for.
func eventually(t *testing.T, within time.Duration, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// await waits until a channel is closed.
func await(t *testing.T, so <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-so:
	case <-time.After(callDeadline):
		t.Fatalf("not within %s: %s", callDeadline, what)
	}
}

func clip(b []byte) []byte { return b[:min(len(b), 400)] }

func ptr[T any](v T) *T { return &v }

func argv(a ...string) *[]string { return &a }
