//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestSecretsStayWhereTheyBelong puts canaries into environments, standard input, a token's use and a file, and looks for them, and for the
// materials, in a dump of the database, in every log and in the process list.
func TestSecretsStayWhereTheyBelong(t *testing.T) {
	if platform.instance.Name == "" {
		t.Fatal("no instance")
	}
	secrets := map[string]string{}
	canary := func(what string) string {
		secrets[what] = fmt.Sprintf("canary%s%d", strings.ReplaceAll(what, " ", ""), os.Getpid())
		return secrets[what]
	}
	s := createAs(t, map[string]any{"env": map[string]string{"SECRET": canary("sandbox environment")}})
	in := shell("cat > /root/file; sleep 1000 & true")
	in.Env, in.Stdin = &map[string]string{"OWN": canary("session environment")}, ptr([]byte(canary("stdin")))
	made := session(t, s, in)
	secrets["attachment"] = made.Attachment.Token
	follow(t, made, func(client.Event) {}).want(t, 0, "", "")
	token, status := call[struct{ Secret string }](t, "POST", "/v1/sandboxes/"+s.Id+"/tokens", nil)
	if status != http.StatusCreated {
		t.Fatalf("token: status %d", status)
	}
	secrets["sandbox token"], secrets["key"] = token.Secret, platform.key
	u, _ := call[struct{ URL string }](t, "POST", "/v1/sandboxes/"+s.Id+"/file-urls", map[string]any{"path": "/root/file", "operation": "read", "user": "root"})
	_, secrets["signature"], _ = strings.Cut(u.URL, "signature=")
	secrets["signature"], _, _ = strings.Cut(secrets["signature"], "&")
	if status, _, body := get(t, u.URL, ""); status != http.StatusOK || !strings.Contains(body, secrets["stdin"]) {
		t.Fatalf("the file: status %d, %q", status, body)
	}
	for _, material := range []string{secrets["sandbox token"], secrets["attachment"], secrets["key"]} { // where they don't belong
		get(t, platform.url+"/v1/sandboxes/"+s.Id+"?x="+material, material)
		get(t, strings.Replace(u.URL, secrets["signature"], material, 1), material)
	}
	for place, text := range whereNoSecretBelongs(t) {
		for what, secret := range secrets {
			if len(secret) < 12 {
				t.Errorf("%s is no secret: %q", what, secret)
			} else if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds the %s", place, what)
			}
		}
	}
}

// whereNoSecretBelongs has the places with what is there now.
func whereNoSecretBelongs(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	logs, err := filepath.Glob(filepath.Join(platform.instance.LogDir(), "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs: %v", err)
	}
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range append(logs, cmdlines...) {
		if b, err := os.ReadFile(path); err == nil { // a process may have gone
			out[path] = b
		}
	}
	dump := exec.CommandContext(t.Context(), "pg_dump", "--host", platform.instance.RoleRunDir(instance.Postgres), "--username", "space", "space")
	dump.Stderr = testWriter{t}
	if out["the database's dump"], err = dump.Output(); err != nil || len(out["the database's dump"]) < 10_000 {
		t.Fatalf("dump the database: %v", err)
	}
	return out
}
