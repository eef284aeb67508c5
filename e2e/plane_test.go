//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/client"
)

// TestFilesThereAndBack copies a file and a directory in and out through the command line; every byte must be the same.
func TestFilesThereAndBack(t *testing.T) {
	s := create(t, "mini")
	here := t.TempDir()
	content := make([]byte, 3<<20+17)
	rand.Read(content)
	if err := os.WriteFile(filepath.Join(here, "data"), content, 0o640); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	run := func(args ...string) {
		t.Helper()
		if out, code := space(t, args...); code != 0 {
			t.Fatalf("space %v: exit %d: %s", args, code, out)
		}
	}
	run("cp", filepath.Join(here, "data"), s.Id+":/tmp/in/data")
	runIn(t, s, client.SessionCreate{Shell: ptr("sha256sum < /tmp/in/data; stat -c %a:%u /tmp/in/data")}).want(t, 0, sum+"  -\n640:1000\n", "")
	run("cp", here, s.Id+":/tmp/tree")
	run("cp", s.Id+":/tmp/tree", filepath.Join(here, "back"))
	back, err := os.ReadFile(filepath.Join(here, "back", "data"))
	if err != nil || !bytes.Equal(back, content) {
		t.Errorf("the file that came back has %d bytes of %d: %v", len(back), len(content), err)
	}
}

// TestSandboxTokenOpensItsSandboxOnly tries a token on another sandbox, on the management API, and after it was revoked.
func TestSandboxTokenOpensItsSandboxOnly(t *testing.T) {
	s, other := create(t, "mini"), create(t, "mini")
	token, err := platform.client.CreateSandboxToken(t.Context(), s.Id, "e2e", 0)
	if err != nil {
		t.Fatal(err)
	}
	plane := func(sandbox, secret string) *client.Plane {
		p, err := client.NewPlane(token.Url, sandbox, secret)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if _, err := plane(s.Id, token.Secret).StatFile(t.Context(), "/etc/passwd"); err != nil {
		t.Errorf("its own sandbox: %v", err)
	}
	if _, err := plane(other.Id, token.Secret).StatFile(t.Context(), "/etc/passwd"); err == nil {
		t.Error("the token opens another sandbox")
	}
	if _, err := plane(s.Id, platform.key).StatFile(t.Context(), "/etc/passwd"); err == nil {
		t.Error("a management key opens the data plane")
	}
	if status, _, body := get(t, platform.url+"/v1/sandboxes", token.Secret); status != 401 {
		t.Errorf("the management API answers the token with %d: %s", status, body)
	}
	if err := platform.client.RevokeSandboxToken(t.Context(), s.Id, token.Token.Id); err != nil {
		t.Fatal(err)
	}
	if _, err := plane(s.Id, token.Secret).StatFile(t.Context(), "/etc/passwd"); err == nil {
		t.Error("a revoked token opens the sandbox")
	}
}

// TestInputWhileItRuns talks with a command: what it answers depends on what it was sent.
func TestInputWhileItRuns(t *testing.T) {
	s := create(t, "mini")
	open := session(t, s, client.SessionCreate{Shell: ptr(`while read -r x; do echo "got $x"; done; echo end`), OpenStdin: ptr(true)})
	plane, err := platform.client.Plane(t.Context(), s.Id)
	if err != nil {
		t.Fatal(err)
	}
	answers, sent := make(chan struct{}, 3), make(chan error, 1)
	r, w := io.Pipe()
	got := follow(t, open, func(e client.Event) {
		switch e.Type {
		case client.EventStarted:
			go func() {
				_, err := plane.SendStdin(t.Context(), open.Session.Id, 0, r, true)
				sent <- err
			}()
			go func() {
				for _, word := range []string{"one", "two"} {
					fmt.Fprintln(w, word)
					<-answers // the next word is sent only when this one was answered
				}
				w.Close()
			}()
		case client.EventStdout:
			answers <- struct{}{}
		}
	})
	got.want(t, 0, "got one\ngot two\nend\n", "")
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
