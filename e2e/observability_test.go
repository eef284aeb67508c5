//go:build e2e

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// TestOneRequestInAllLogs attaches to a session, looks at a file, and finds the request's id in the log of every role on its
// way, and its token in none.
func TestOneRequestInAllLogs(t *testing.T) {
	box := create(t, "mini")
	open := session(t, box, client.SessionCreate{Argv: argv("true")})
	hops := []instance.Role{instance.Edge, instance.API, instance.NodeAPI, instance.Manager, instance.Host}
	onItsWay(t, open.Attachment.Url, open.Attachment.Token, hops)
	token, err := platform.client.CreateSandboxToken(t.Context(), box.Id, "e2e", 0)
	if err != nil {
		t.Fatal(err)
	}
	onItsWay(t, token.Url+"/files/stat?path=/etc/passwd", token.Secret, hops)
}

// onItsWay makes a request on the data plane and finds it in the logs of roles.
func onItsWay(t *testing.T, to, bearer string, roles []instance.Role) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("X-Request-Id", "chosen-by-a-client")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", req.URL.Path, resp.Status, err)
	}
	id := resp.Header.Get("X-Request-Id")
	wantInLogs(t, id, roles, bearer, platform.key, "chosen-by-a-client")
}

// TestOneRequestInAllLogsOfItsOrders: what a request asks for is done later, by an order to the node, and is found by the request's id there too.
func TestOneRequestInAllLogsOfItsOrders(t *testing.T) {
	hops := []instance.Role{instance.API, instance.NodeAPI, instance.Manager, instance.Host}
	status, header, body := manage(t, http.MethodPost, "/v1/sandboxes?wait=60s", `{"template":"mini"}`)
	var o client.Operation
	if err := json.Unmarshal([]byte(body), &o); err != nil || status != http.StatusCreated || o.Sandbox == nil {
		t.Fatalf("create a sandbox: %d %s", status, body)
	}
	wantInLogs(t, header.Get("X-Request-Id"), hops, platform.key)
	status, header, body = manage(t, http.MethodDelete, "/v1/sandboxes/"+o.Sandbox.Id+"?wait=60s", "")
	if status != http.StatusOK {
		t.Fatalf("delete the sandbox: %d %s", status, body)
	}
	wantInLogs(t, header.Get("X-Request-Id"), hops, platform.key)
}

// TestOneTraceThroughAllRoles makes a sandbox and runs a command in it, both in a trace of the client's: it goes through every role on their way, unbroken,
// and each span has the id of the request that it belongs to.
func TestOneTraceThroughAllRoles(t *testing.T) {
	trace := newTrace()
	created := traced(t, trace, http.MethodPost, platform.url+"/v1/sandboxes?wait=60s", platform.key, `{"template":"mini"}`)
	var o client.Operation
	if err := json.Unmarshal(created.body, &o); err != nil || o.Sandbox == nil {
		t.Fatalf("create a sandbox: %s", created.body)
	}
	asked := traced(t, trace, http.MethodPost, platform.url+"/v1/sandboxes/"+o.Sandbox.Id+"/sessions", platform.key, `{"argv":["true"]}`)
	var s client.SessionCreated
	if err := json.Unmarshal(asked.body, &s); err != nil {
		t.Fatalf("create a session: %s", asked.body)
	}
	ran := traced(t, trace, http.MethodGet, s.Attachment.Url, s.Attachment.Token, "")
	if err := platform.client.DeleteSandbox(t.Context(), o.Sandbox.Id); err != nil {
		t.Errorf("delete the sandbox: %v", err)
	}

	var missing []string
	defer func() {
		if t.Failed() {
			t.Logf("it lacks %q", missing)
		}
	}()
	eventually(t, callDeadline, "the whole trace has come", func() bool {
		spans := platform.traces.trace(trace)
		missing = slices.Concat(
			lacks(spans, created.id, "POST /v1/sandboxes", instance.API, instance.NodeAPI, instance.Manager, instance.Host),
			lacks(spans, asked.id, "POST /v1/sandboxes/{sandbox}/sessions", instance.API),
			lacks(spans, ran.id, "GET /v1/sessions/{session}/attach", instance.Edge, instance.API, instance.NodeAPI, instance.Manager, instance.Host),
			orphans(spans, trace))
		return len(missing) == 0
	})
	for _, span := range platform.traces.trace(trace) {
		if id := span.request(); id != created.id && id != asked.id && id != ran.id {
			t.Errorf("%s of %s has the request %q", span.GetName(), span.service, id)
		}
		for _, secret := range []string{platform.key, s.Attachment.Token} {
			if strings.Contains(span.String(), secret) {
				t.Errorf("%s of %s has what a client sent in a header", span.GetName(), span.service)
			}
		}
	}
}

// newTrace is the id of a trace that nobody else makes spans of. Its first half is that of the client's span, too.
func newTrace() (id [16]byte) {
	rand.Read(id[:])
	return id
}

// answered is a request's id, and the answer's body.
type answered struct {
	id   string
	body []byte
}

// traced makes a request as part of a trace.
func traced(t *testing.T, trace [16]byte, method, url, bearer, body string) answered {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Traceparent", fmt.Sprintf("00-%x-%x-00", trace, trace[:8])) // not sampled, if it were up to the client
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %s, %v", method, req.URL.Path, resp.Status, b, err)
	}
	return answered{resp.Header.Get("X-Request-Id"), b}
}

// lacks says what spans of a request lack: its own, and one of each role on its way.
func lacks(spans []collected, request, name string, roles ...instance.Role) (missing []string) {
	has := func(so func(collected) bool) bool {
		return slices.ContainsFunc(spans, func(s collected) bool { return s.request() == request && so(s) })
	}
	if !has(func(s collected) bool { return s.GetName() == name }) {
		missing = append(missing, name)
	}
	for _, r := range roles {
		if !has(func(s collected) bool { return s.service == platform.instance.Prefix()+string(r) }) {
			missing = append(missing, name+" at "+string(r))
		}
	}
	return missing
}

// orphans says which spans of a trace hang in the air: they have a parent that isn't in it, and isn't the client's span.
func orphans(spans []collected, trace [16]byte) (missing []string) {
	known := map[string]bool{string(trace[:8]): true}
	for _, s := range spans {
		known[string(s.GetSpanId())] = true
	}
	for _, s := range spans {
		if !known[string(s.GetParentSpanId())] {
			missing = append(missing, "the parent of "+s.GetName()+" at "+s.service)
		}
	}
	return missing
}

// manage makes a request of the management API.
func manage(t *testing.T, method, path, body string) (status int, header http.Header, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, platform.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+platform.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// wantInLogs waits until the log of each role has a request's id, and holds that none has a secret.
func wantInLogs(t *testing.T, id string, roles []instance.Role, secrets ...string) {
	t.Helper()
	if !strings.HasPrefix(id, "req_") {
		t.Fatalf("the answer's request id is %q", id)
	}
	for _, r := range roles {
		log := func() []byte {
			b, err := os.ReadFile(supervise.LogFile(platform.instance.LogDir(), string(r)))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		eventually(t, 5*time.Second, fmt.Sprintf("the log of %s has the request %s", r, id), func() bool {
			return bytes.Contains(log(), []byte(`"request":"`+id+`"`))
		})
		for _, secret := range secrets {
			if bytes.Contains(log(), []byte(secret)) {
				t.Errorf("the log of %s has what a client sent in a header", r)
			}
		}
	}
}

// TestEveryRoleShowsItself: each is healthy and ready, and has metrics of its own.
func TestEveryRoleShowsItself(t *testing.T) {
	runIn(t, create(t, "mini"), client.SessionCreate{Argv: argv("true")}).want(t, 0, "", "")
	for role, want := range map[instance.Role][]string{
		instance.API:     {`space_http_requests_total{method="POST",route="/v1/sandboxes",status="201"}`, `space_db_pool_connections{state="max"}`, `procedure="/space.control.v1.ControlService/ResolveAttachment"`},
		instance.Edge:    {`route="/v1/sessions/{session}/attach",status="200"`, `space_rpc_client_calls_total{code="ok",procedure="/space.session.v1.SessionService/Attach"}`},
		instance.NodeAPI: {`space_rpc_server_calls_total{code="ok",procedure="/space.session.v1.SessionService/Attach"}`},
		instance.Manager: {`space_rpc_server_calls_total{code="ok",procedure="/space.session.v1.SessionService/Attach"}`},
		instance.Host:    {`space_host_executions{state="running"}`, `space_host_link_handshakes_total{result="ok"}`, `space_host_execution_step_duration_seconds_count{step="all"}`},
	} {
		port, _ := platform.instance.OpsPort(role)
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, _, body := get(t, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), ""); status != 200 || body != "ok\n" {
				t.Errorf("%s of %s: %d %q", path, role, status, body)
			}
		}
		out, code := space(t, "metrics", string(role))
		for _, line := range append(want, `space_build_info{`, `role="`+string(role)+`"`, "go_goroutines ") {
			if !strings.Contains(out, line) || code != 0 {
				t.Errorf("the metrics of %s (exit %d) have no %s", role, code, line)
			}
		}
		for _, id := range []string{"sbx_", "exe_", "ses_", "prj_", "req_"} {
			if strings.Contains(out, id) {
				t.Errorf("the metrics of %s have an id, %s…", role, id)
			}
		}
	}
}
