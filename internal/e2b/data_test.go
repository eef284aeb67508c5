package e2b

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/gen/e2b/process"
	"github.com/space-platform/space/api/gen/e2b/process/processconnect"
	api "github.com/space-platform/space/api/gen/http"
)

// frames cuts a Connect stream into its messages; the last has the flag 2.
func frames(t *testing.T, stream string) (messages []string, end string) {
	t.Helper()
	for b := []byte(stream); len(b) > 0; {
		if len(b) < 5 || uint32(len(b)-5) < binary.BigEndian.Uint32(b[1:5]) {
			t.Fatalf("%q isn't whole", stream)
		}
		n := binary.BigEndian.Uint32(b[1:5])
		if b[0]&2 != 0 {
			end = string(b[5 : 5+n])
		} else {
			messages = append(messages, string(b[5:5+n]))
		}
		b = b[5+n:]
	}
	return messages, end
}

func envelope(message string) string {
	out := make([]byte, 5)
	binary.BigEndian.PutUint32(out[1:], uint32(len(message)))
	return string(out) + message
}

// startCommand is what Python's SDK 2.21.1 sends for commands.run, pretty as it is.
const startCommand = "{\n  \"process\": {\n    \"cmd\": \"/bin/bash\",\n    \"args\": [\n      \"-l\",\n      \"-c\",\n      \"echo hi\"\n    ],\n    \"envs\": {\n      \"A\": \"b\"\n    }\n  },\n  \"stdin\": false\n}"

// stream calls a streaming procedure as Python's SDK 2.21.1 does.
func (r *rig) stream(t *testing.T, procedure, message, token string, header ...string) (messages []string, end string) {
	t.Helper()
	status, body, _ := call(t, "POST", r.data.URL+procedure, envelope(message), append([]string{
		"Content-Type", "application/connect+json", "Connect-Protocol-Version", "1", "Connect-Content-Encoding", "identity", headerToken, token,
		"Keepalive-Ping-Interval", "50", "User-Agent", "e2b-python-sdk/2.21.1",
	}, header...)...)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", procedure, status, body)
	}
	return frames(t, body)
}

// unary calls a procedure that has one answer.
func (r *rig) unary(t *testing.T, procedure, message, token string, header ...string) (int, string) {
	t.Helper()
	status, body, _ := call(t, "POST", r.data.URL+procedure, message, append([]string{"Content-Type", "application/json", "Connect-Protocol-Version", "1", headerToken, token}, header...)...)
	return status, body
}

// compact takes the spaces out of JSON, which protojson puts in at random.
func compact(t *testing.T, messages []string) []string {
	t.Helper()
	for i, m := range messages {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(m)); err != nil {
			t.Fatalf("%q: %v", m, err)
		}
		messages[i] = b.String()
	}
	return messages
}

// TestStart pins the events of a command and their order, and that a request needs no name of a sandbox beside its token.
func TestStart(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	r.events = sse("hi\n", "oops", `{"code":3}`)
	for _, header := range [][]string{nil, {headerSandbox, id, headerPort, agentPort}} {
		messages, end := r.stream(t, "/process.Process/Start", startCommand, token, header...)
		want := []string{
			`{"event":{"start":{"pid":4711}}}`, `{"event":{"data":{"stdout":"aGkK"}}}`, `{"event":{"data":{"stderr":"b29wcw=="}}}`,
			`{"event":{"end":{"exitCode":3,"exited":true,"status":"exit status 3","error":"exit status 3"}}}`,
		}
		if got := compact(t, messages); !slices.Equal(got, want) || end != "{}" {
			t.Errorf("%v, then %s", got, end)
		}
	}
	var sent api.SessionCreate
	if err := json.Unmarshal([]byte(r.bodies["POST /v1/sandboxes/sbx_"+id+"/sessions"]), &sent); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(*sent.Argv, []string{"/bin/bash", "-l", "-c", "echo hi"}) || sent.OpenStdin != nil || (*sent.Env)["A"] != "b" || (*sent.Env)["E2B_SANDBOX_ID"] != id {
		t.Errorf("the platform was asked for %s", r.bodies["POST /v1/sandboxes/sbx_"+id+"/sessions"])
	}
}

// TestWhatCannotBeStarted has no pid: the call fails, and a start isn't told first. The directory isn't asked for before.
func TestWhatCannotBeStarted(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	asked := len(r.asked)
	started := "id: 0\nevent: started\ndata: {\"at\":\"2026-01-01T00:00:00Z\"}\n\n"
	for text, code := range map[string]string{
		"run true in /no as user: no such file or directory": "invalid_argument", `user \"nobody2\": not in /etc/passwd`: "unauthenticated",
	} {
		r.events = started + "id: 0\nevent: exit\ndata: {\"code\":127,\"error\":\"" + text + "\"}\n\n"
		messages, end := r.stream(t, "/process.Process/Start", `{"process":{"cmd":"true","cwd":"/no"},"stdin":false}`, token)
		if len(messages) != 0 || !strings.Contains(end, `"code":"`+code+`"`) || !strings.Contains(end, text) && !strings.Contains(end, strings.ReplaceAll(text, "\"", "\\\"")) {
			t.Errorf("%v, then %s", messages, end)
		}
	}
	r.events = started + "id: 1\nevent: stdout\ndata: {\"data\":\"YQ==\"}\n\nid: 1\nevent: exit\ndata: {\"code\":0}\n\n"
	messages, _ := r.stream(t, "/process.Process/Start", `{"process":{"cmd":"true","cwd":"/no"},"stdin":false}`, token)
	if got := compact(t, messages); len(got) != 3 || !strings.Contains(got[0], `{"event":{"start":{`) || !strings.Contains(got[1], "stdout") {
		t.Errorf("of a pid that isn't known: %v", got)
	}
	if n := len(r.asked) - asked; n != 3 {
		t.Errorf("three commands took %d requests: %v", n, r.asked[asked:])
	}
}

// TestStartInBinary is for clients that are made from the protocol's files.
func TestStartInBinary(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	r.events = sse("hi\n", "", `{"code":null,"signal":"SIGKILL"}`)
	c := processconnect.NewProcessClient(http.DefaultClient, r.data.URL)
	req := connect.NewRequest(&process.StartRequest{Process: &process.ProcessConfig{Cmd: "true"}})
	req.Header().Set(headerToken, token)
	s, err := c.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var last *process.ProcessEvent
	for s.Receive() {
		last = s.Msg().GetEvent()
	}
	if e := last.GetEnd(); s.Err() != nil || e.GetExitCode() != -1 || e.GetExited() || e.GetStatus() != "signal: killed" || e.GetError() != "signal: killed" {
		t.Errorf("%v, %v", last, s.Err())
	}
}

// TestTimeout ends a command before the client's own timer does, and kills it.
func TestTimeout(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	r.events = sse("early", "", "")
	began := time.Now()
	messages, end := r.stream(t, "/process.Process/Start", startCommand, token, "Connect-Timeout-Ms", "1000")
	if took := time.Since(began); took >= time.Second || len(messages) != 2 || !strings.Contains(end, "deadline_exceeded") {
		t.Errorf("after %s: %v, then %s", took, messages, end)
	}
	if !slices.Contains(r.asked, "POST /v1/sessions/ses_1/signal") {
		t.Error("the command goes on")
	}
}

// TestKeepAlive says that a silent stream lives.
func TestKeepAlive(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	r.events = sse("", "", "")
	messages, _ := r.stream(t, "/process.Process/Start", startCommand, token, "Connect-Timeout-Ms", "2500", "Keepalive-Ping-Interval", "1")
	if got := compact(t, messages); len(got) < 2 || got[1] != `{"event":{"keepalive":{}}}` {
		t.Errorf("%v", got)
	}
}

// TestProcessesByPid finds one that this facade never saw, and says of one that isn't there that it wasn't found.
func TestProcessesByPid(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	pid := int64(12)
	r.live = []api.LiveSession{{Id: "ses_live", State: api.LiveSessionStateRunning, Pid: &pid, Argv: []string{"sleep", "9"}}}
	if status, body := r.unary(t, "/process.Process/List", `{}`, token); status != 200 || !strings.Contains(body, `"pid":12`) && !strings.Contains(body, `"pid": 12`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.unary(t, "/process.Process/SendSignal", `{"process":{"pid":12},"signal":"SIGNAL_SIGKILL"}`, token); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for procedure, message := range map[string]string{
		"SendSignal": `{"process":{"pid":13},"signal":"SIGNAL_SIGTERM"}`, "SendInput": `{"process":{"pid":13},"input":{"stdin":"eA=="}}`,
		"Update": `{"process":{"pid":13},"pty":{"size":{"cols":1,"rows":1}}}`, "CloseStdin": `{"process":{"pid":13}}`,
	} {
		if status, body := r.unary(t, "/process.Process/"+procedure, message, token); status != http.StatusNotFound || !strings.Contains(body, "not_found") {
			t.Errorf("%s: %d %s", procedure, status, body)
		}
	}
	if _, end := r.stream(t, "/process.Process/Connect", `{"process":{"pid":13}}`, token); !strings.Contains(end, "not_found") {
		t.Errorf("Connect: %s", end)
	}
	if status, body := r.unary(t, "/process.Process/SendSignal", `{"process":{"tag":"x"},"signal":"SIGNAL_SIGTERM"}`, token); status != http.StatusNotImplemented {
		t.Errorf("by a tag: %d %s", status, body)
	}
}

// TestDoors: no token, a wrong one, that of another sandbox, half of the headers, another port.
func TestDoors(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	other, _ := r.created(t)
	for _, x := range []struct {
		name   string
		header []string
		status int
	}{
		{"nothing", nil, 401}, {"no token", []string{headerSandbox, id, headerPort, agentPort}, 401}, {"nonsense", []string{headerToken, "x"}, 401},
		{"a wrong token", []string{headerToken, id + ".spacesbx_wrong"}, 401}, {"another's", []string{headerToken, token, headerSandbox, other, headerPort, agentPort}, 401},
		{"half of the headers", []string{headerToken, token, headerSandbox, id}, 400}, {"another port", []string{headerToken, token, headerSandbox, id, headerPort, "3000"}, 400},
		{"a host of another", []string{headerToken, token, "Host", "x"}, 204}, {"right", []string{headerToken, token, headerSandbox, id, headerPort, agentPort}, 204},
		{"no such sandbox", []string{headerToken, token, headerSandbox, "none", headerPort, agentPort}, 502},
	} {
		status, body, _ := call(t, "GET", r.data.URL+"/health", "", x.header...)
		if status != x.status {
			t.Errorf("%s: %d %s, want %d", x.name, status, body, x.status)
		}
	}
	if status, body, _ := call(t, "GET", r.data.URL+"/any/page", "", headerSandbox, id, headerPort, "3000"); status != 400 {
		t.Errorf("a page of another port: %d %s", status, body)
	}
	if status, body := r.unary(t, "/filesystem.Filesystem/Stat", `{"path":"/"}`, "x"); status != 401 {
		t.Errorf("files: %d %s", status, body)
	}
}

// TestATokenForAnotherSandbox has all doors closed with 401, whatever the request is for; a file that one may not read is the request's fault as before.
func TestATokenForAnotherSandbox(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	at := "/v1/sandboxes/sbx_" + id
	ask := func() map[string]string {
		out := map[string]string{}
		for _, path := range []string{"/health", "/files?path=/x"} {
			status, _, _ := call(t, "GET", r.data.URL+path, "", headerToken, token)
			out[path] = fmt.Sprint(status)
		}
		status, _, _ := call(t, "POST", r.data.URL+"/files?path=/x", "y", headerToken, token, "Content-Type", "application/octet-stream")
		out["a write"] = fmt.Sprint(status)
		status, body := r.unary(t, "/filesystem.Filesystem/MakeDir", `{"path":"/made"}`, token)
		out["a call"] = fmt.Sprint(status, " ", strings.Contains(body, "unauthenticated"))
		_, end := r.stream(t, "/process.Process/Start", startCommand, token)
		out["a command"] = fmt.Sprint(strings.Contains(end, "unauthenticated"))
		return out
	}
	for _, name := range []string{"GET " + at + "/files/content", "PUT " + at + "/files/content", "POST " + at + "/files/mkdir", "POST " + at + "/sessions"} {
		r.refused(name, space.CodeForbidden, "permission denied")
	}
	if got, want := ask(), map[string]string{"/health": "204", "/files?path=/x": "400", "a write": "400", "a call": "403 false", "a command": "false"}; !maps.Equal(got, want) {
		t.Errorf("what a user may not: %v, want %v", got, want)
	}
	r.refused("GET "+at+"/files/stat", space.CodeForbidden, "the token opens another sandbox")
	if got, want := ask(), map[string]string{"/health": "401", "/files?path=/x": "401", "a write": "401", "a call": "401 true", "a command": "true"}; !maps.Equal(got, want) {
		t.Errorf("a token of another sandbox: %v, want %v", got, want)
	}
}

// TestOnlyTokensThatOpenAreRemembered has strangers bring tokens: they take no places. One that was issued elsewhere, or before a restart, has a place once it
// has opened its sandbox.
func TestOnlyTokensThatOpenAreRemembered(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	r.facade.tokens.forget(string(space.PrefixSandbox) + "_" + id)
	r.files["/x"] = "text"
	wrong := id + ".spacesbx_wrong"
	for _, path := range []string{"/health", "/files?path=/x"} {
		if status, body, _ := call(t, "GET", r.data.URL+path, "", headerToken, wrong); status != 401 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := r.unary(t, "/filesystem.Filesystem/Stat", `{"path":"/"}`, wrong); status != 401 {
		t.Errorf("files: %d %s", status, body)
	}
	if n := len(r.facade.tokens.known); n != 0 {
		t.Errorf("%d tokens of strangers are remembered", n)
	}
	for what, open := range map[string]func(){
		"a look": func() { call(t, "GET", r.data.URL+"/health", "", headerToken, token) },
		"a file": func() { call(t, "GET", r.data.URL+"/files?path=/x", "", headerToken, token) },
		"a write": func() {
			call(t, "POST", r.data.URL+"/files?path=/x", "y", headerToken, token, "Content-Type", "application/octet-stream")
		},
		"a call": func() { r.unary(t, "/filesystem.Filesystem/Stat", `{"path":"/"}`, token) },
	} {
		open()
		a, _ := parseAccess(token)
		if _, ok := r.facade.tokens.known[a]; !ok {
			t.Errorf("%s opened it, and its token isn't known", what)
		}
		r.facade.tokens.forget(a.sandbox)
	}
}

// TestGone is the one answer that drives is_running and the SDKs' timeouts.
func TestGone(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	r.controlled(t, "DELETE", "/sandboxes/"+id, "")
	want := `{"sandboxId":"` + id + `","message":"The sandbox was not found","code":502}`
	for _, path := range []string{"/health", "/files?path=/x"} {
		r.refused("GET /v1/sandboxes/sbx_"+id+"/files/content", space.CodeExecutionLost, "the sandbox is deleted")
		if status, body, _ := call(t, "GET", r.data.URL+path, "", headerToken, token); status != 502 || strings.TrimSpace(body) != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	r.refused("POST /v1/sandboxes/sbx_"+id+"/sessions", space.CodeConflict, "the sandbox is stopped: start it first")
	if _, end := r.stream(t, "/process.Process/Start", startCommand, token); !strings.Contains(end, `"unavailable"`) {
		t.Errorf("a command: %s", end)
	}
}

const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"dir/odd %22name%22 ä.txt\"\r\nContent-Type: application/octet-stream\r\n\r\none\r\n" +
	"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/two\"\r\n\r\ntwo\r\n--b--\r\n"

// TestFiles pins the forms and the answers of plain HTTP.
func TestFiles(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	files := r.data.URL + "/files"
	status, body, _ := call(t, "POST", files, form, headerToken, token, "Content-Type", "multipart/form-data; boundary=b")
	want := `[{"name":"odd \"name\" ä.txt","path":"/home/user/dir/odd \"name\" ä.txt","type":"file"},{"name":"two","path":"/two","type":"file"}]`
	if status != 200 || strings.TrimSpace(body) != want || r.files["/two"] != "two" {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := call(t, "POST", files+"?path=/empty", "", headerToken, token, "Content-Type", "application/octet-stream"); status != 200 {
		t.Errorf("octets: %d %s", status, body)
	}
	status, body, h := call(t, "GET", files+"?path=/empty", "", headerToken, token)
	if status != 200 || body != "" || h.Get("Content-Length") != "0" {
		t.Errorf("an empty file: %d %q %v", status, body, h)
	}
	for _, x := range []struct {
		name, method, query, body, kind string
		status                          int
	}{
		{"twice", "POST", "?path=/x", form, "multipart/form-data; boundary=b", 400}, {"no path", "POST", "", "x", "application/octet-stream", 400},
		{"another type", "POST", "?path=/x", "x", "text/plain", 400}, {"no form", "POST", "", "x", "multipart/form-data; boundary=b", 400},
		{"a directory", "GET", "?path=/dir", "", "", 400}, {"nothing", "GET", "?path=/none", "", "", 404},
	} {
		status, body, _ := call(t, x.method, files+x.query, x.body, headerToken, token, "Content-Type", x.kind)
		if status != x.status {
			t.Errorf("%s: %d %s, want %d", x.name, status, body, x.status)
		}
		refusal(t, status, body)
	}
	if status, _, _ := call(t, "GET", files+"?path=/two", "", headerToken, token, "Accept-Encoding", "br, identity;q=0"); status != http.StatusNotAcceptable {
		t.Errorf("an encoding that isn't sent: %d", status)
	}
}

// TestSignedURLs opens a file by nothing but a signature, with E2B's exact words where it doesn't.
func TestSignedURLs(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	r.files["/x"] = "by url"
	sign := func(operation, expiration string) string {
		s := signed{path: "/x", operation: operation, user: "user", expiration: expiration}
		q := url.Values{"path": {"/x"}, "username": {"user"}, "signature": {signatureOf(s, token)}}
		if expiration != "" {
			q.Set("signature_expiration", expiration)
		}
		return r.data.URL + "/files?" + q.Encode()
	}
	if status, body, _ := call(t, "GET", sign(operationRead, ""), ""); status != 200 || body != "by url" {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ := call(t, "GET", sign(operationRead, "99999999999"), ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for name, x := range map[string][2]string{
		"another operation": {sign(operationWrite, ""), "invalid signature"}, "too late": {sign(operationRead, "1"), "signature is already expired"},
		"unsigned": {r.data.URL + "/files?path=/x", "missing signature query parameter"}, "another path": {strings.Replace(sign(operationRead, ""), "%2Fx", "%2Fy", 1), "invalid signature"},
	} {
		status, body, _ := call(t, "GET", x[0], "")
		if status != 401 || strings.TrimSpace(body) != `{"code":401,"message":"`+x[1]+`"}` {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// TestFilesystem pins codes by which SDKs tell what happened.
func TestFilesystem(t *testing.T) {
	r := newRig(t)
	_, token := r.created(t)
	r.files["/f"] = "x"
	for _, x := range []struct {
		procedure, message string
		status             int
		has                string
	}{
		{"Stat", `{"path":"/f"}`, 200, `FILE_TYPE_FILE`}, {"Stat", `{"path":"/none"}`, 404, "not_found"}, {"Stat", `{"path":"/link"}`, 200, `"/dir"`},
		{"MakeDir", `{"path":"/dir"}`, 409, "already_exists"}, {"MakeDir", `{"path":"/f"}`, 400, "invalid_argument"}, {"MakeDir", `{"path":"/made"}`, 200, "/made"},
		{"ListDir", `{"path":"/dir"}`, 200, "{}"}, {"ListDir", `{"path":"/f","depth":1}`, 400, "invalid_argument"}, {"ListDir", `{"path":"/none"}`, 404, "not_found"},
		{"Remove", `{"path":"/none"}`, 200, "{}"}, {"Move", `{"source":"/none","destination":"/x"}`, 404, "not_found"},
		{"GetWatcherEvents", `{"watcherId":"none"}`, 404, "not_found"}, {"RemoveWatcher", `{"watcherId":"none"}`, 404, "not_found"},
		{"CreateWatcher", `{"path":"/f"}`, 400, "invalid_argument"}, {"CreateWatcher", `{"path":"/none"}`, 404, "not_found"},
		{"CreateWatcher", `{"path":"/dir","allowNetworkMounts":true}`, 501, "unimplemented"},
	} {
		status, body := r.unary(t, "/filesystem.Filesystem/"+x.procedure, x.message, token)
		if status != x.status || !strings.Contains(body, x.has) {
			t.Errorf("%s %s: %d %s, want %d", x.procedure, x.message, status, body, x.status)
		}
	}
}

// TestBrowsers may read answers, since what opens a sandbox is a token that the page must have.
func TestBrowsers(t *testing.T) {
	r := newRig(t)
	status, _, h := call(t, "OPTIONS", r.data.URL+"/process.Process/Start", "", "Origin", "https://a.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "x-access-token")
	if status != http.StatusNoContent || h.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "x-access-token") {
		t.Errorf("%d %v", status, h)
	}
}

// FuzzForm: whatever a form is, what is written has a name.
func FuzzForm(f *testing.F) {
	f.Add(`form-data; name="file"; filename="a/b"`)
	f.Add(`form-data; name=file; filename*=UTF-8''%e2%82%ac`)
	f.Fuzz(func(t *testing.T, disposition string) {
		name, file, err := partNames(disposition)
		if err != nil && (name != "" || file != "") {
			t.Errorf("%q: %q, %q with %v", disposition, name, file, err)
		}
	})
}

// FuzzMetadata reads back what an SDK encodes.
func FuzzMetadata(f *testing.F) {
	f.Add("k e", "v&1=")
	f.Fuzz(func(t *testing.T, name, value string) {
		text := url.Values{url.QueryEscape(name): {url.QueryEscape(value)}}.Encode()
		got, err := metadataFilter(text)
		if err != nil || got[name] != value || len(got) != 1 {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		metadataFilter(name + value) // anything may come
	})
}
