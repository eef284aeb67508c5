//go:build e2e

package redteam

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/cli"
	"github.com/space-platform/space/internal/control/keys"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/wake"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/postgres"
)

// callDeadline bounds everything that a test waits for; generous, since software emulation on a loaded machine is slow.
const callDeadline = 60 * time.Second

// platform is the instance under attack.
var platform struct {
	instance   instance.Instance
	api, edge  string // addresses
	owner      string // a key of the organisation's owner
	box, other sandbox
}

// sandbox is a sandbox of the owner's project with a token of it.
type sandbox struct{ id, token string }

var keep = flag.Bool("keep", false, "leave the platform running after the tests")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	name := os.Getenv("SPACE_REDTEAM_INSTANCE")
	if name == "" {
		name = "redteam"
	}
	binary, err := filepath.Abs("../bin/space")
	if err == nil {
		err = start(binary, name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the platform under attack:", err)
		return 1
	}
	code = m.Run()
	if *keep {
		return code
	}
	if err := show(binary, "purge", "--yes", "--instance", name); err != nil {
		fmt.Fprintln(os.Stderr, "remove the platform under attack:", err)
		return 1
	}
	return code
}

// configure gives guests Debian's kernel, which lets their root do more than a tuned one: ports, for example.
func configure(i instance.Instance) error {
	if err := os.MkdirAll(i.DataDir(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(i.ConfigFile(), []byte("kernel = \"cloud\"\n"), 0o644)
}

func start(binary, name string) (err error) {
	if err := configure(instance.Instance{Name: name}); err != nil {
		return err
	}
	for _, args := range [][]string{{"up", "--no-install"}, {"template", "build", "mini"}} {
		if err := show(binary, append(args, "--instance", name)...); err != nil {
			return err
		}
	}
	if platform.instance, err = instance.Find(name); err != nil {
		return err
	}
	c, err := cli.Load(cli.Overrides{Instance: name})
	platform.api, platform.owner = c.URL, c.APIKey
	return err
}

func show(binary string, args ...string) error {
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("space %v: %w", args, err)
	}
	return nil
}

// boxes returns the two sandboxes that the tests share, made for the first that asks. They live as long as the platform.
func boxes(t *testing.T) (box, other sandbox) {
	t.Helper()
	for _, b := range []*sandbox{&platform.box, &platform.other} {
		if b.id == "" {
			*b = newSandbox(t)
		}
	}
	return platform.box, platform.other
}

func newSandbox(t *testing.T) sandbox {
	t.Helper()
	made := decode[gen.Operation](t, ask(t, "POST", platform.api+"/v1/sandboxes?wait=60s", platform.owner, `{"template":"mini"}`).want(t, 201))
	if made.Status != "succeeded" {
		t.Fatalf("create a sandbox: %+v", made)
	}
	return sandbox{made.Sandbox.Id, tokenOf(t, made.Sandbox.Id).Secret}
}

// tokenOf issues a sandbox's token, and learns where the edge is.
func tokenOf(t *testing.T, id string) gen.SandboxTokenCreated {
	t.Helper()
	made := decode[gen.SandboxTokenCreated](t, ask(t, "POST", platform.api+"/v1/sandboxes/"+id+"/tokens", platform.owner, `{}`).want(t, 201))
	platform.edge, _, _ = strings.Cut(made.Url, "/v1/")
	return made
}

// path is a sandbox's address on the edge.
func (s sandbox) path(rest string) string { return platform.edge + "/v1/sandboxes/" + s.id + rest }

// session creates a session, by the management API.
func (s sandbox) session(t *testing.T, body string) gen.SessionCreated {
	t.Helper()
	return decode[gen.SessionCreated](t, ask(t, "POST", platform.api+"/v1/sandboxes/"+s.id+"/sessions", platform.owner, body).want(t, 201))
}

// output is what a session says.
type output struct {
	stdout, stderr string
	exit           struct {
		Code   *int
		Signal string
		Error  string
	}
}

// run runs a command in the sandbox to its end.
func (s sandbox) run(t *testing.T, body string) (out output) {
	t.Helper()
	made := s.session(t, body)
	for e := range follow(t, made.Attachment.Url, made.Attachment.Token) {
		switch e.name {
		case "stdout":
			out.stdout += e.bytes(t)
		case "stderr":
			out.stderr += e.bytes(t)
		case "exit":
			if err := json.Unmarshal([]byte(e.data), &out.exit); err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatalf("the session of %s ended without an exit", body)
	return out
}

// root runs a shell script in the guest as root, which must succeed.
func (s sandbox) root(t *testing.T, script string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"shell": script, "user": "root"})
	if err != nil {
		t.Fatal(err)
	}
	out := s.run(t, string(body))
	if out.exit.Code == nil || *out.exit.Code != 0 {
		t.Fatalf("%s: exit %+v, %s", script, out.exit, out.stderr)
	}
	return out.stdout
}

// file is the address of a file's contents, as a user; "" is the template's.
func (s sandbox) file(path, user string) string {
	return s.path("/files/content?path=" + escape(path) + "&user=" + user)
}

// keyOf makes an API key in a project of the organisation; "" is the owner's.
func keyOf(t *testing.T, role space.Role, project string) gen.KeyCreated {
	t.Helper()
	body := `{"name":"redteam","role":"` + string(role) + `"`
	if project != "" {
		body += `,"project":"` + project + `"`
	}
	return decode[gen.KeyCreated](t, ask(t, "POST", platform.api+"/v1/keys", platform.owner, body+"}").want(t, 201))
}

// stranger is a key of an owner of another organisation. The API makes no organisations; whoever runs the platform does.
func stranger(t *testing.T) string {
	t.Helper()
	pool := database(t)
	store := postgres.New(pool)
	project, err := store.EnsureProject(t.Context(), "stranger", "stranger")
	if err != nil {
		t.Fatal(err)
	}
	k := record.Key{Project: project, Granted: space.RoleOwner}
	if err := pool.QueryRow(t.Context(), "SELECT org FROM projects WHERE id = $1", project).Scan(&k.Org); err != nil {
		t.Fatal(err)
	}
	role := space.RoleOwner
	_, secret, err := keys.New(store, new(wake.Bell)).Create(t.Context(), k, keys.Create{Name: "stranger", Role: &role})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// database is the platform's own.
func database(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), fmt.Sprintf("host=%s user=space dbname=space", platform.instance.RoleRunDir(instance.Postgres)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// unique is a name that nothing has yet.
func unique(of string) string { return fmt.Sprintf("%s-%d", of, time.Now().UnixNano()) }

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

// bounded is a context for one thing that a test waits for.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), callDeadline, errors.New("nothing comes"))
	t.Cleanup(cancel)
	return ctx
}
