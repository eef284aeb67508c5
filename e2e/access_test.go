//go:build e2e

package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
)

// TestMaterialsDontMix: a token opens its session and nothing else; a key opens no data plane.
func TestMaterialsDontMix(t *testing.T) {
	s := create(t, "mini")
	one := session(t, s, client.SessionCreate{Argv: argv("true")})
	two := session(t, s, client.SessionCreate{Argv: argv("true")})
	for name, c := range map[string]struct {
		url, material string
		status        int
	}{
		"key on the data plane":       {one.Attachment.Url, platform.key, 401},
		"nothing on the data plane":   {one.Attachment.Url, "", 401},
		"another session's token":     {one.Attachment.Url, two.Attachment.Token, 403},
		"token on the management API": {platform.url + "/v1/sandboxes", one.Attachment.Token, 401},
		"nothing on the API":          {platform.url + "/v1/sandboxes", "", 401},
		"almost the key":              {platform.url + "/v1/sandboxes", platform.key + "x", 401},
		"almost the token":            {one.Attachment.Url, one.Attachment.Token[:len(one.Attachment.Token)-1], 401},
	} {
		t.Run(name, func(t *testing.T) {
			status, kind, body := get(t, c.url, c.material)
			if status != c.status || !strings.HasPrefix(kind, "application/problem+json") {
				t.Errorf("%d %s %s, want a problem with status %d", status, kind, body, c.status)
			}
			if c.material != "" && strings.Contains(body, c.material) {
				t.Error("the answer repeats the material")
			}
		})
	}
}

// TestShapeBeyondTheNodeIsRefused asks for one more than the machine has, where the API has numbers for that.
func TestShapeBeyondTheNodeIsRefused(t *testing.T) {
	node, err := platform.client.Node(t.Context())
	if err != nil || node.Vcpus == nil || node.MemoryMb == nil {
		t.Fatalf("the node: %+v, %v", node, err)
	}
	asked := client.SandboxCreate{Template: "mini", Vcpus: ptr(*node.Vcpus + 1)}
	want := "shape_unavailable"
	if *asked.Vcpus > 32 {
		want = "invalid_request"
	}
	_, err = platform.client.CreateSandbox(t.Context(), asked)
	wantCode(t, err, want)
	asked, want = client.SandboxCreate{Template: "mini", MemoryMb: ptr(*node.MemoryMb + 1)}, "shape_unavailable"
	if *asked.MemoryMb > 262144 {
		want = "invalid_request"
	}
	_, err = platform.client.CreateSandbox(t.Context(), asked)
	wantCode(t, err, want)
	_, err = platform.client.CreateSandbox(t.Context(), client.SandboxCreate{Template: "no-such-template"})
	wantCode(t, err, "not_found")
}

func get(t *testing.T, url, bearer string) (status int, contentType, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}
