//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestSignedURLs writes and reads a file by URLs alone; what is signed for one thing does no other.
func TestSignedURLs(t *testing.T) {
	s := create(t, "mini")
	path := "/v1/sandboxes/" + s.Id + "/file-urls"
	sign := func(operation string) string {
		t.Helper()
		u, status := call[struct{ URL string }](t, "POST", path, map[string]any{"path": "/tmp/a b&c", "operation": operation})
		if status != http.StatusCreated {
			t.Fatalf("sign: status %d", status)
		}
		return u.URL
	}
	do := func(method, url, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	write, read := sign("write"), sign("read")
	if status, body := do("PUT", write, "signed"); status/100 != 2 {
		t.Fatalf("write: status %d, %s", status, body)
	}
	if status, body := do("GET", read, ""); status != http.StatusOK || body != "signed" {
		t.Errorf("read: status %d, %q", status, body)
	}
	other := create(t, "mini")
	for name, x := range map[string][2]string{
		"a write's URL reads": {"GET", write}, "a read's URL writes": {"PUT", read}, "another path": {"GET", strings.Replace(read, "%26c", "%26d", 1)},
		"another sandbox": {"GET", strings.Replace(read, s.Id, other.Id, 1)}, "another user": {"GET", read + "&user=root"},
	} {
		if status, body := do(x[0], x[1], ""); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, %s", name, status, body)
		}
	}
	runIn(t, s, shell("cat '/tmp/a b&c'")).want(t, 0, "signed", "")
	req, err := http.NewRequestWithContext(t.Context(), "DELETE", platform.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+platform.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("revoke: %v, %v", res, err)
	}
	res.Body.Close()
	if status, body := do("GET", read, ""); status != http.StatusUnauthorized {
		t.Errorf("a URL that was voided: status %d, %s", status, body)
	}
}

// failedLogin has a build log in to a registry that wants the password, and has no image. It returns all that is told of the build.
func failedLogin(t *testing.T, password string) []byte {
	t.Helper()
	var came atomic.Bool
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, p, _ := r.BasicAuth(); p == password {
			came.Store(true)
			http.NotFound(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer registry.Close()
	op, _ := call[client.Operation](t, "POST", "/v1/templates?wait=180s", map[string]any{
		"name": "private", "image": strings.TrimPrefix(registry.URL, "http://") + "/private:1", "registry_auth": map[string]string{"username": "robot", "password": password},
	})
	t.Cleanup(func() { askAs(t, "DELETE", "/v1/templates/private", platform.key, "") })
	if op.Status != "failed" || !came.Load() {
		t.Fatalf("the build: %+v; the password came: %v", op, came.Load())
	}
	told, err := json.Marshal(op)
	if err != nil {
		t.Fatal(err)
	}
	_, _, log := get(t, platform.url+"/v1/templates/private/logs", platform.key)
	_, _, template := get(t, platform.url+"/v1/templates/private", platform.key)
	return append(told, log+template...)
}

// usedUpload is the token of an upload that has been made with it.
func usedUpload(t *testing.T) string {
	t.Helper()
	u, status := call[client.Upload](t, "POST", "/v1/uploads", map[string]any{})
	if status != http.StatusCreated {
		t.Fatalf("upload: status %d", status)
	}
	req, err := http.NewRequestWithContext(t.Context(), "PUT", u.Url, strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+u.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("upload: %v, %v", res, err)
	}
	res.Body.Close()
	return u.Token
}

// usedKey is a key in E2B's form that has been used.
func usedKey(t *testing.T) string {
	t.Helper()
	made, status := call[struct {
		Secret string
		Key    struct{ ID string }
	}](t, "POST", "/v1/keys", map[string]any{"name": "canary", "format": "e2b"})
	if status != http.StatusCreated || !strings.HasPrefix(made.Secret, "e2b_") {
		t.Fatalf("key: status %d", status)
	}
	t.Cleanup(func() { askAs(t, "DELETE", "/v1/keys/"+made.Key.ID, platform.key, "") })
	if status, _, body := get(t, platform.url+"/v1/me", made.Secret); status != http.StatusOK {
		t.Fatalf("the key opens nothing: %d %s", status, body)
	}
	return made.Secret
}

// TestSecretsStayWhereTheyBelong puts canaries into environments (of a sandbox, a session, a template and a step of its build), standard input,
// files and a registry's login, and uses each material where it belongs and where it doesn't. Then it looks for all of them in every file of the platform, PostgreSQL's
// included, every log, process and figure, a dump of the database, and the errors that it got.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	if platform.instance.Name == "" {
		t.Fatal("no instance")
	}
	secrets := map[string]string{}
	canary := func(what string) string {
		secrets[what] = fmt.Sprintf("canary%s%d", strings.ReplaceAll(what, " ", ""), os.Getpid())
		return secrets[what]
	}
	built, status := call[client.Operation](t, "POST", "/v1/templates?wait=180s", map[string]any{
		"name": "secretive", "template": "mini", "env": map[string]string{"TEMPLATE": canary("template environment")},
		"steps": []map[string]any{{"env": map[string]string{"STEP": canary("step environment")}}, {"run": `test -n "$STEP"`}},
	})
	if status != http.StatusCreated || built.Status != "succeeded" {
		t.Fatalf("build: status %d, %+v", status, built.Error)
	}
	t.Cleanup(func() { askAs(t, "DELETE", "/v1/templates/secretive", platform.key, "") }) // after the sandbox that uses it
	s := createAs(t, map[string]any{"template": "secretive", "env": map[string]string{"SECRET": canary("sandbox environment")}})
	in := shell("cat > /root/file; sleep 1000 & true")
	in.Env, in.Stdin = &map[string]string{"OWN": canary("session environment")}, ptr([]byte(canary("stdin")))
	made := session(t, s, in)
	secrets["attachment"] = made.Attachment.Token
	follow(t, made, func(client.Event) {}).want(t, 0, "", "")
	seen := runIn(t, s, shell(`echo "$TEMPLATE $STEP $SECRET"`)) // they are where they belong
	if want := secrets["template environment"] + " " + secrets["step environment"] + " " + secrets["sandbox environment"] + "\n"; string(seen.stdout) != want {
		t.Fatalf("the sandbox has %q, want %q", seen.stdout, want)
	}
	token, status := call[struct{ Secret, URL string }](t, "POST", "/v1/sandboxes/"+s.Id+"/tokens", nil)
	if status != http.StatusCreated {
		t.Fatalf("token: status %d", status)
	}
	secrets["sandbox token"], secrets["key"] = token.Secret, platform.key
	plane, err := client.NewPlane(token.URL, s.Id, token.Secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.WriteFile(t.Context(), "/tmp/written", strings.NewReader(canary("written file"))); err != nil {
		t.Fatal(err)
	}
	u, _ := call[struct{ URL string }](t, "POST", "/v1/sandboxes/"+s.Id+"/file-urls", map[string]any{"path": "/root/file", "operation": "read", "user": "root"})
	_, secrets["signature"], _ = strings.Cut(u.URL, "signature=")
	secrets["signature"], _, _ = strings.Cut(secrets["signature"], "&")
	if status, _, body := get(t, u.URL, ""); status != http.StatusOK || !strings.Contains(body, secrets["stdin"]) {
		t.Fatalf("the file: status %d, %q", status, body)
	}
	secrets["upload token"], secrets["e2b key"] = usedUpload(t), usedKey(t)
	elsewhere := map[string][]byte{"what is told of a build with a login": failedLogin(t, canary("registry password"))}
	for what, secret := range secrets { // where they don't belong
		for place, to := range map[string]string{
			"the API": platform.url + "/v1/sandboxes/" + s.Id + "?x=" + secret, "the API's path": platform.url + "/v1/sandboxes/" + secret,
			"a file's URL": strings.Replace(u.URL, secrets["signature"], secret, 1) + "x", "a file": token.URL + "/files/stat?path=/",
		} {
			status, _, body := get(t, to, secret)
			if status < 400 && secret != secrets["sandbox token"] {
				t.Errorf("%s opens %s: %d", what, place, status)
			}
			elsewhere["the answer of "+place+" to the "+what] = []byte(body)
		}
	}
	for place, text := range whereNoSecretBelongs(t) {
		elsewhere[place] = text
	}
	for what, secret := range secrets {
		if len(secret) < 12 {
			t.Errorf("%s is no secret: %q", what, secret)
		}
		for place, text := range elsewhere {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has the %s", place, what)
			}
		}
	}
	for _, found := range places(t, platform.instance, secrets) {
		t.Error(found)
	}
}

// whereNoSecretBelongs has what isn't in a file: the figures of all roles, and a dump of the database, in which values may be hidden by how files keep
// them.
func whereNoSecretBelongs(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, role := range instance.Roles() {
		if _, ok := platform.instance.OpsPort(role); !ok {
			continue
		}
		text, code := space(t, "metrics", string(role))
		if code != 0 || len(text) < 1000 {
			t.Fatalf("the figures of %s: exit %d, %d bytes", role, code, len(text))
		}
		out["the figures of "+string(role)] = []byte(text)
	}
	dump := exec.CommandContext(t.Context(), "pg_dump", "--host", platform.instance.RoleRunDir(instance.Postgres), "--username", "space", "space")
	dump.Stderr = testWriter{t}
	var err error
	if out["the database's dump"], err = dump.Output(); err != nil || len(out["the database's dump"]) < 10_000 {
		t.Fatalf("dump the database: %v", err)
	}
	return out
}
