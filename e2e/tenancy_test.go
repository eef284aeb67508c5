//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/client"
)

// askAs sends a request to the management API and returns its status and its answer, decoded.
func askAs(t *testing.T, method, path, key, body string) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), callDeadline) // clean-ups call as well
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, platform.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]any{}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil && err != io.EOF {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, out
}

// key makes a key of a role, which ends with the test.
func key(t *testing.T, role string) (id, secret string) {
	t.Helper()
	status, made := askAs(t, "POST", "/v1/keys", platform.key, `{"name":"e2e","role":"`+role+`"}`)
	if status != 201 {
		t.Fatalf("create a key: %d %v", status, made)
	}
	id = made["key"].(map[string]any)["id"].(string)
	t.Cleanup(func() { askAs(t, "DELETE", "/v1/keys/"+id, platform.key, "") })
	return id, made["secret"].(string)
}

// TestViewerOnlyLooks has a key that may read and nothing else.
func TestViewerOnlyLooks(t *testing.T) {
	s := create(t, "mini")
	_, viewer := key(t, "viewer")
	ses := session(t, s, shell("echo up; exit 3"))
	if r := <-beginFollowing(t, ses, func(client.Event) {}).done; r.exit.Code != 3 {
		t.Fatalf("the session ended with %+v, %v", r.exit, r.lost)
	}
	viewerLists(t, s.Id, ses, viewer)
	for _, x := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/sandboxes/" + s.Id, "", 200},
		{"GET", "/v1/me", "", 200},
		{"POST", "/v1/sandboxes", `{"template":"mini"}`, 403},
		{"POST", "/v1/sandboxes/" + s.Id + "/sessions", `{"shell":"id"}`, 403},
		{"DELETE", "/v1/sandboxes/" + s.Id, "", 403},
		{"GET", "/v1/keys", "", 403},
	} {
		if status, answer := askAs(t, x.method, x.path, viewer, x.body); status != x.status {
			t.Errorf("%s %s: %d %v, want %d", x.method, x.path, status, answer, x.status)
		}
	}
}

// viewerLists has `space ps` show what the control plane has recorded, as soon as it's known there.
func viewerLists(t *testing.T, sandbox string, ses client.SessionCreated, viewer string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(viewer), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, callDeadline, "a viewer is told how the session ended", func() bool {
		out, code := space(t, "ps", sandbox, "--api-key-file", file)
		return code == 0 && regexp.MustCompile(`(?m)^`+ses.Session.Id+` +exit 3 +.* /bin/sh -c echo up; exit 3$`).MatchString(out)
	})
	var list struct{ Items []client.LiveSession }
	out, code := space(t, "ps", sandbox, "--api-key-file", file, "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Items) != 1 || list.Items[0].State != "ended" || list.Items[0].StartedAt == nil {
		t.Errorf("as JSON: exit %d, %v\n%s", code, err, out)
	}
}

// TestQuotaOfTheProject allows one sandbox more than there are: a second is refused, and let in once the first one's delete is accepted.
func TestQuotaOfTheProject(t *testing.T) {
	_, me := askAs(t, "GET", "/v1/me", platform.key, "")
	project := me["project"].(map[string]any)["id"].(string)
	set := func(quota string) {
		if status, answer := askAs(t, "PATCH", "/v1/projects/"+project, platform.key, `{"quota":`+quota+`}`); status != 200 {
			t.Fatalf("set the quota: %d %v", status, answer)
		}
	}
	t.Cleanup(func() { set(`{}`) })
	used := me["project"].(map[string]any)["used"].(map[string]any)["sandboxes"].(float64)
	for s, err := range platform.client.ListSandboxes(t.Context(), client.SandboxFilter{}) {
		t.Logf("another test has left %+v, %v", s, err)
	}
	set(fmt.Sprintf(`{"sandboxes":%v}`, used+1))
	first, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	wantCode(t, err, "quota_exceeded")
	if status, _ := askAs(t, "DELETE", "/v1/sandboxes/"+first.Id, platform.key, ""); status != 200 && status != 202 {
		t.Fatalf("delete: %d", status)
	}
	create(t, "mini")
}

// TestEventsOfASandboxsLife follows the feed while a sandbox comes and goes, until the key that follows is revoked.
func TestEventsOfASandboxsLife(t *testing.T) {
	id, viewer := key(t, "viewer")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, platform.url+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+viewer)
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	names := make(chan string, 16)
	go func() {
		defer close(names)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				names <- name
			}
		}
	}()
	s, err := platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "mini"})
	if err != nil {
		t.Fatal(err)
	}
	if err := platform.client.DeleteSandbox(t.Context(), s.Id); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sandbox.created", "sandbox.running", "sandbox.deleted"} {
		if got := receive(t, names); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if status, answer := askAs(t, "DELETE", "/v1/keys/"+id, platform.key, ""); status != 204 {
		t.Fatalf("revoke: %d %v", status, answer)
	}
	for got := receive(t, names); got != "ended"; got = receive(t, names) {
		if got != "key.revoked" {
			t.Fatalf("%s, want the end", got)
		}
	}
	if status, _ := askAs(t, "GET", "/v1/me", viewer, ""); status != 401 {
		t.Errorf("a revoked key: %d", status)
	}
}

func receive(t *testing.T, names <-chan string) string {
	t.Helper()
	select {
	case name, ok := <-names:
		if !ok {
			t.Fatal("the stream broke")
		}
		return name
	case <-time.After(callDeadline):
		t.Fatal("nothing comes")
	}
	return ""
}
