//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/space-platform/space/client"
)

// The schema fuzzer sends what api/openapi.yaml allows, and what it forbids, to the servers of a whole platform, and holds their answers against
// it: no 5xx, no undocumented status, type or body, 405 for other methods, 401 without a key, a refusal of what is forbidden and none of what is
// allowed. What it can't know is in fuzz/hooks.py. Streams that don't end, and uploads, have tests of their own.
var (
	fuzzSeed = flag.Int("fuzz-seed", 20261130, "where the schema fuzzer begins")
)

// fuzzTime is how long the fuzzer works on each server.
const fuzzTime = time.Minute

// installTime bounds getting the fuzzer from the registry, and endTime its end when its own time is over.
const (
	installTime = 5 * time.Minute
	endTime     = 90 * time.Second
)

//go:embed fuzz/requirements.txt
var fuzzRequirements []byte

// fuzzed is what the fuzzer may do all things to: a project with a small quota, and what a request needs to name.
type fuzzed struct {
	key, token             string
	url, edge              string
	sandbox, session       string // named to the API, which may end them
	worked, workedSession  string // named to the edge alone, which can't end the sandbox
	gone                   string
	spareProject, spareKey string
	spareUser              string
}

func TestTheContractHoldsAgainstAFuzzer(t *testing.T) { holdAgainstAFuzzer(t, fuzzTime) }

func holdAgainstAFuzzer(t *testing.T, long time.Duration) {
	tool := fuzzer(t)
	f := newFuzzed(t)
	t.Run("both", func(t *testing.T) { f.both(t, tool, long) })
	// Nobody was told of the sandbox that was worked in but the data plane, which can't end it.
	if s, err := f.client(t).GetSandbox(t.Context(), f.worked); err != nil || s.State != "running" {
		t.Errorf("the sandbox that was worked in: %+v, %v", s, err)
	}
	// All daemons are there.
	runIn(t, client.Sandbox{Id: create(t, "mini").Id}, client.SessionCreate{Argv: argv("true")}).want(t, 0, "", "")
}

// both works on the two servers side by side.
func (f *fuzzed) both(t *testing.T, tool string, long time.Duration) {
	t.Run("edge", func(t *testing.T) {
		t.Parallel()
		args := []string{"--include-tag", "data plane"}
		for _, id := range []string{"attachSession", "attachWebSocket", "watchFiles", "putUpload"} {
			args = append(args, "--exclude-operation-id", id)
		}
		fuzz(t, tool, long, f.config(f.token, f.worked, f.workedSession), f.edge, args...)
	})
	t.Run("api", func(t *testing.T) {
		t.Parallel()
		args := []string{}
		for _, tag := range []string{"sandboxes", "sessions", "operations", "templates", "tenancy", "events", "service"} {
			args = append(args, "--include-tag", tag)
		}
		fuzz(t, tool, long, f.config(f.key, f.sandbox, f.session), f.url, args...)
	})
}

// fuzz runs the fuzzer. Its seed makes a run repeatable.
func fuzz(t *testing.T, tool string, long time.Duration, config, at string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "schemathesis.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), long+endTime)
	defer cancel()
	seconds := strconv.Itoa(int(long.Seconds()))
	cmd := exec.CommandContext(ctx, tool, append([]string{
		"--config-file", file, "run", platform.url + "/openapi.yaml", "--url", at, "--phases", "coverage,fuzzing", "--max-time", seconds, "--seed", strconv.Itoa(*fuzzSeed),
		"--checks", "all", "--exclude-checks", "use_after_free,ensure_resource_availability,object_level_authorization", "--continue-on-failure",
		"--generation-database", "none", "--request-timeout", "30", "--warnings", "off", "--no-color", "--no-shrink",
	}, args...)...)
	hooks, err := filepath.Abs("fuzz")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = t.TempDir() // where it keeps what it found, keys included
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=hooks", "PYTHONPATH="+hooks, "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	t.Logf("seed %d, %s:\n%s", *fuzzSeed, long, out)
	if err != nil {
		t.Errorf("the schema fuzzer: %v", err)
	}
}

// fuzzer returns the tool, which it installs into the user's cache the first time.
func fuzzer(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "space-test", fmt.Sprintf("schemathesis-%x", sha256.Sum256(fuzzRequirements))[:29])
	tool := filepath.Join(dir, "bin", "schemathesis")
	if _, err := os.Stat(filepath.Join(dir, "whole")); err == nil {
		return tool
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	for _, args := range [][]string{
		{"python3", "-m", "venv", "--clear", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", "fuzz/requirements.txt"},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("install the schema fuzzer: %v: %v: %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return tool
}

// newFuzzed makes a project that the fuzzer can do no harm from.
func newFuzzed(t *testing.T) *fuzzed {
	t.Helper()
	ctx, admin := t.Context(), platform.client
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	project, err := admin.CreateProject(ctx, client.ProjectCreate{Name: "fuzz", Quota: &client.Quota{
		Sandboxes: ptr(4), Vcpus: ptr(4), MemoryMb: ptr(int64(640)), DiskMb: ptr(int64(1280)),
	}})
	must("create a project", err)
	spare, err := admin.CreateProject(ctx, client.ProjectCreate{Name: "fuzz-spare"})
	must("create another project", err)
	owner := client.Role("owner")
	key, err := admin.CreateKey(ctx, client.KeyCreate{Name: "fuzz", Project: &project.Id, Role: &owner})
	must("create a key", err)
	other, err := admin.CreateKey(ctx, client.KeyCreate{Name: "fuzz-spare"})
	must("create another key", err)
	f := &fuzzed{key: key.Secret, url: platform.url, spareProject: spare.Id, spareKey: other.Key.Id}
	c := f.client(t)
	user, err := admin.CreateUser(ctx, "fuzz", "viewer")
	must("create a user", err)
	f.spareUser = user.Id
	build, err := c.BeginBuildTemplate(ctx, "mini")
	must("build a template", err)
	_, err = c.Await(ctx, build)
	must("build a template", err)
	t.Cleanup(func() { f.remove(t, project.Id) })
	for _, id := range []*string{&f.sandbox, &f.worked, &f.gone} {
		s, err := c.CreateSandbox(ctx, client.SandboxCreate{Template: "mini"})
		must("create a sandbox", err)
		*id = s.Id
	}
	must("delete a sandbox", c.DeleteSandbox(ctx, f.gone))
	token, err := c.CreateSandboxToken(ctx, f.worked, "fuzz", 0)
	must("create a token", err)
	f.token = token.Secret
	f.session, _ = f.sleeper(t, c, f.sandbox)
	var attachment client.Attachment
	f.workedSession, attachment = f.sleeper(t, c, f.worked)
	at, err := url.Parse(attachment.Url)
	must("read the edge's address", err)
	f.edge = at.Scheme + "://" + at.Host
	return f
}

// sleeper starts a session that lasts, in a sandbox.
func (f *fuzzed) sleeper(t *testing.T, c *client.Client, sandbox string) (id string, a client.Attachment) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), callDeadline)
	defer stop()
	s, err := c.CreateSession(ctx, sandbox, client.SessionCreate{Shell: ptr("exec sleep 1000"), Tty: &client.TerminalSize{Rows: 24, Cols: 80}})
	if err != nil {
		t.Fatalf("create a session: %v", err)
	}
	for _, err := range c.Attach(ctx, s.Session, s.Attachment) {
		if err != nil {
			t.Fatalf("start the session: %v", err)
		}
		break
	}
	return s.Session.Id, s.Attachment
}

func (f *fuzzed) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(f.url, f.key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// remove takes away what was made, and what the fuzzer has made of it.
func (f *fuzzed) remove(t *testing.T, project string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*callDeadline)
	defer cancel()
	c := f.client(t)
	for s, err := range c.ListSandboxes(ctx, client.SandboxFilter{}) {
		if err == nil {
			err = c.DeleteSandbox(ctx, s.Id)
		}
		if err != nil {
			t.Errorf("remove a sandbox of the fuzzer: %v", err)
			break
		}
	}
	for _, id := range []string{project, f.spareProject} {
		if err := platform.client.DeleteProject(ctx, id); err != nil {
			t.Errorf("remove the fuzzer's project: %v", err)
		}
	}
	if err := platform.client.DeleteUser(ctx, f.spareUser); err != nil {
		t.Errorf("remove the fuzzer's user: %v", err)
	}
}

// config is the fuzzer's configuration: with what material it comes, and what of ours it names, so that it gets past "not found". What it may end
// is spare, or gone already.
func (f *fuzzed) config(secret, sandbox, session string) string {
	return fmt.Sprintf(`
[headers]
Authorization = "Bearer %s"

[parameters]
"path.sandbox" = "%s"
"path.session" = "%s"
"path.template" = "mini"
"path.key" = "%s"
"path.project" = "%s"
"path.user" = "%s"

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 410, 413, 416, 422, 429]

[[operations]]
include-operation-id = ["deleteSandbox", "stopSandbox", "startSandbox", "pauseSandbox", "resumeSandbox", "suspendSandbox", "restoreSandbox", "wakeSandbox", "forkSandbox", "rollbackSandbox", "createSnapshot"]
parameters = { "path.sandbox" = "%s" }

[[operations]]
include-operation-id = ["deleteTemplate", "deleteProject", "deleteUser"]
parameters = { "path.template" = "no-such", "path.project" = "no-such", "path.user" = "no-such" }
`, secret, sandbox, session, f.spareKey, f.spareProject, f.spareUser, f.gone)
}
