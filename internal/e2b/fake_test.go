package e2b

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	space "github.com/space-platform/space"
	api "github.com/space-platform/space/api/gen/http"
)

// platform is a public API with its edge, as far as the facade asks it: one project, whose sandboxes run at once.
type platform struct {
	*httptest.Server
	mu        sync.Mutex
	sandboxes map[string]*api.Sandbox
	order     []string
	files     map[string]string
	events    string // what an attach answers
	live      []api.LiveSession
	templates []api.Template
	asked     []string // METHOD PATH of all requests
	bodies    map[string]string
	refuse    map[string]api.Problem // by METHOD PATH
	times     map[string]int         // how often, where it isn't always
	during    func(name string)      // nil, or called before a request is answered
	lastKey   string                 // Idempotency-Key of the newest order of a sandbox
}

const (
	goodKey = "e2b_0123456789abcdef0123456789abcdef01234567"
	secret  = "spacesbx_secret"
)

func newPlatform(t *testing.T) *platform {
	p := &platform{sandboxes: map[string]*api.Sandbox{}, files: map[string]string{}, bodies: map[string]string{}, refuse: map[string]api.Problem{}, times: map[string]int{}}
	mux := http.NewServeMux()
	management := map[string]func(http.ResponseWriter, *http.Request){
		"POST /v1/sandboxes":                  p.create,
		"GET /v1/sandboxes":                   p.list,
		"GET /v1/sandboxes/{sandbox}":         p.get,
		"PATCH /v1/sandboxes/{sandbox}":       p.update,
		"DELETE /v1/sandboxes/{sandbox}":      p.remove,
		"POST /v1/sandboxes/{sandbox}/tokens": p.token,
		"GET /v1/sandboxes/{sandbox}/tokens": func(w http.ResponseWriter, _ *http.Request) {
			ours, other := tokenName, "other"
			p.answer(w, 200, api.SandboxTokenPage{Items: []api.SandboxToken{{Id: "tok_1", Name: &ours}, {Id: "tok_2", Name: &ours}, {Id: "tok_3", Name: &other}}})
		},
		"DELETE /v1/sandboxes/{sandbox}/tokens/{token}": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"POST /v1/sandboxes/{sandbox}/suspend":          p.become(api.SandboxStateSuspended),
		"POST /v1/sandboxes/{sandbox}/stop":             p.become(api.SandboxStateStopped),
		"POST /v1/sandboxes/{sandbox}/wake":             p.become(api.SandboxStateRunning),
		"POST /v1/sandboxes/{sandbox}/restore": func(w http.ResponseWriter, r *http.Request) {
			p.bodies["restore"] = r.URL.RawQuery
			p.become(api.SandboxStateRunning)(w, r)
		},
		"POST /v1/sandboxes/{sandbox}/start": p.become(api.SandboxStateRunning),
		"POST /v1/sandboxes/{sandbox}/fork":  p.fork,
		"POST /v1/sandboxes/{sandbox}/snapshots": func(w http.ResponseWriter, _ *http.Request) {
			name := "made"
			p.answer(w, 200, api.Operation{Id: "op_4", Kind: "create_snapshot", Status: api.OperationStatusSucceeded, Snapshot: &api.Snapshot{Id: "snp_2", Name: &name}})
		},
		"GET /v1/snapshots/{snapshot}": func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("snapshot") != "snap" {
				p.problem(w, space.CodeNotFound, "there's no such snapshot")
				return
			}
			p.answer(w, 200, api.Snapshot{Id: "snp_1"})
		},
		"GET /v1/me": func(w http.ResponseWriter, _ *http.Request) { p.answer(w, 200, api.Me{}) },
		"POST /v1/uploads": func(w http.ResponseWriter, _ *http.Request) {
			p.answer(w, 201, api.Upload{Id: space.NewID(space.PrefixUpload), Token: "up"})
		},
		"GET /v1/templates": func(w http.ResponseWriter, _ *http.Request) { p.answer(w, 200, api.TemplatePage{Items: p.templates}) },
		"POST /v1/templates": func(w http.ResponseWriter, _ *http.Request) {
			p.answer(w, 202, api.Operation{Id: "op_5", Kind: "build_template", Status: api.OperationStatusRunning, Template: &api.Template{Id: "tpl_9"}})
		},
		"GET /v1/templates/{template}":               p.template,
		"PUT /v1/templates/{template}/tags/{tag}":    p.template,
		"DELETE /v1/templates/{template}/tags/{tag}": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
	}
	data := map[string]func(http.ResponseWriter, *http.Request){
		"POST /v1/sandboxes/{sandbox}/sessions":     p.session,
		"GET /v1/sessions/{session}/attach":         p.attach,
		"POST /v1/sessions/{session}/signal":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"GET /v1/sandboxes/{sandbox}/live-sessions": p.liveSessions,
		"PUT /v1/sandboxes/{sandbox}/files/content": p.write,
		"GET /v1/sandboxes/{sandbox}/files/content": p.read,
		"GET /v1/sandboxes/{sandbox}/files/stat":    p.stat,
		"GET /v1/sandboxes/{sandbox}/files/list": func(w http.ResponseWriter, _ *http.Request) {
			p.answer(w, 200, api.FileList{Entries: []api.FileEntry{}})
		},
		"POST /v1/sandboxes/{sandbox}/files/rename": func(w http.ResponseWriter, _ *http.Request) { p.problem(w, space.CodeNotFound, "no such file") },
		"DELETE /v1/sandboxes/{sandbox}/files":      func(w http.ResponseWriter, _ *http.Request) { p.problem(w, space.CodeNotFound, "no such file") },
		"POST /v1/sandboxes/{sandbox}/files/mkdir": func(w http.ResponseWriter, _ *http.Request) {
			p.answer(w, 200, entry("/made", api.FileEntryTypeDirectory))
		},
	}
	for pattern, h := range management {
		mux.HandleFunc(pattern, p.guarded(goodKey, h))
	}
	for pattern, h := range data {
		mux.HandleFunc(pattern, p.guarded(secret, h))
	}
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// guarded refuses another material, and what the test wants refused.
func (p *platform) guarded(material string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + r.URL.Path
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if p.during != nil {
			p.during(name)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, name)
		if name == "POST /v1/sandboxes" {
			p.lastKey = r.Header.Get(space.IdempotencyKey)
		}
		p.bodies[name] = string(body)
		if r.Header.Get("Authorization") != "Bearer "+material {
			p.problem(w, space.CodeUnauthenticated, "the key isn't valid")
			return
		}
		if problem, ok := p.refuse[name]; ok {
			if p.times[name]--; p.times[name] == 0 {
				delete(p.refuse, name)
			}
			p.problem(w, space.Code(problem.Code), *problem.Detail)
			return
		}
		h(w, r)
	}
}

func (p *platform) refused(name string, code space.Code, detail string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse[name] = api.Problem{Code: string(code), Detail: &detail}
}

func (p *platform) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (p *platform) problem(w http.ResponseWriter, code space.Code, detail string) {
	p.answer(w, code.HTTPStatus(), api.Problem{Code: string(code), Detail: &detail, Status: code.HTTPStatus(), Title: code.Title()})
}

func (p *platform) create(w http.ResponseWriter, r *http.Request) {
	var in api.SandboxCreate
	json.NewDecoder(r.Body).Decode(&in)
	if in.Template != "base" && in.Snapshot != "snp_1" {
		p.problem(w, space.CodeNotFound, "there's no such template")
		return
	}
	deadline := time.Now().Add(time.Duration(*in.Lifetime.Seconds) * time.Second)
	s := &api.Sandbox{
		Id: space.NewID(space.PrefixSandbox), Template: in.Template, State: api.SandboxStateRunning, Vcpus: 1, MemoryMb: 512, DiskMb: 4096, CreatedAt: time.Now(),
		Metadata: *in.Metadata, Lifetime: &api.Lifetime{Deadline: &deadline, OnExpiry: in.Lifetime.OnExpiry},
	}
	p.sandboxes[s.Id], p.order = s, append([]string{s.Id}, p.order...)
	p.answer(w, 201, api.Operation{Id: "op_1", Kind: "create_sandbox", Status: api.OperationStatusSucceeded, Sandbox: s})
}

func (p *platform) find(w http.ResponseWriter, r *http.Request) *api.Sandbox {
	s := p.sandboxes[r.PathValue("sandbox")]
	if s == nil {
		p.problem(w, space.CodeNotFound, "the sandbox doesn't exist")
	}
	return s
}

func (p *platform) get(w http.ResponseWriter, r *http.Request) {
	if s := p.find(w, r); s != nil {
		p.answer(w, 200, s)
	}
}

func (p *platform) update(w http.ResponseWriter, r *http.Request) {
	var in api.SandboxUpdate
	json.NewDecoder(r.Body).Decode(&in)
	if s := p.find(w, r); s != nil {
		s.Lifetime = nil
		if in.Lifetime.Seconds != nil {
			deadline := time.Now().Add(time.Duration(*in.Lifetime.Seconds) * time.Second)
			s.Lifetime = &api.Lifetime{Deadline: &deadline, OnExpiry: in.Lifetime.OnExpiry}
		} else if in.Lifetime.Deadline != nil {
			s.Lifetime = in.Lifetime
		}
		p.answer(w, 200, s)
	}
}

// become answers a lifecycle change.
func (p *platform) become(state api.SandboxState) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s := p.find(w, r); s != nil {
			s.State = state
			p.answer(w, 200, api.Operation{Id: "op_3", Kind: "suspend_sandbox", Status: api.OperationStatusSucceeded, Sandbox: s})
		}
	}
}

// fork makes two sandboxes, of which one fails, and goes.
func (p *platform) fork(w http.ResponseWriter, r *http.Request) {
	s := p.find(w, r)
	if s == nil {
		return
	}
	var children []string
	for _, state := range []api.SandboxState{api.SandboxStateRunning, api.SandboxStateDeleting} {
		child := *s
		child.Id, child.State = space.NewID(space.PrefixSandbox), state
		p.sandboxes[child.Id] = &child
		children = append(children, child.Id)
	}
	code, detail := string(space.CodeSnapshotUnusable), "its memory is damaged"
	p.answer(w, 201, api.Operation{Id: "op_6", Kind: "fork_sandbox", Status: api.OperationStatusFailed, Sandbox: s, Children: &children, Error: &api.Problem{Code: code, Detail: &detail}})
}

func (p *platform) remove(w http.ResponseWriter, r *http.Request) {
	if s := p.find(w, r); s != nil {
		s.State = api.SandboxStateDeleted
		p.answer(w, 200, api.Operation{Id: "op_2", Kind: "delete_sandbox", Status: api.OperationStatusSucceeded, Sandbox: s})
	}
}

func (p *platform) template(w http.ResponseWriter, r *http.Request) {
	for _, t := range p.templates {
		if id := r.PathValue("template"); t.Id == id || t.Name == id && t.Current {
			p.answer(w, 200, t)
			return
		}
	}
	p.problem(w, space.CodeNotFound, "there's no such template")
}

func (p *platform) token(w http.ResponseWriter, r *http.Request) {
	if s := p.find(w, r); s != nil {
		p.answer(w, 201, api.SandboxTokenCreated{Secret: secret, Url: p.URL + "/v1/sandboxes/" + s.Id})
	}
}

func (p *platform) list(w http.ResponseWriter, r *http.Request) {
	var all []api.Sandbox
	for _, id := range p.order {
		s := *p.sandboxes[id]
		wanted := slices.Contains(r.URL.Query()["state"], string(s.State))
		for _, m := range r.URL.Query()["metadata"] {
			name, value, _ := strings.Cut(m, "=")
			wanted = wanted && s.Metadata[name] == value
		}
		if wanted {
			all = append(all, s)
		}
	}
	var from, limit int
	fmt.Sscan(r.URL.Query().Get("cursor"), &from)
	fmt.Sscan(r.URL.Query().Get("limit"), &limit)
	page := api.SandboxPage{Items: all[from:min(from+limit, len(all))]}
	if from+limit < len(all) {
		next := fmt.Sprint(from + limit)
		page.NextCursor = &next
	}
	p.answer(w, 200, page)
}

// session creates one and attaches to it, which is the only way in which the facade does.
func (p *platform) session(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Accept") != "text/event-stream" {
		p.problem(w, space.CodeInvalid, "the facade creates sessions to attach to them")
		return
	}
	created, _ := json.Marshal(api.SessionCreated{Session: api.Session{Id: "ses_1", Sandbox: r.PathValue("sandbox")}, Attachment: api.Attachment{Token: "spaceatt_x", Url: p.URL}})
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "event: created\ndata: %s\n\n", created)
	p.stream(w, r)
}

func (p *platform) attach(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	p.stream(w, r)
}

func (p *platform) stream(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, p.events)
	if !strings.Contains(p.events, "event: exit") {
		w.(http.Flusher).Flush()
		p.mu.Unlock()
		<-r.Context().Done()
		p.mu.Lock()
	}
}

// sse writes the events of a session: the pid, output, and the exit as JSON, if it has ended.
func sse(stdout, stderr, exit string) string {
	out := "id: 0\nevent: started\ndata: {\"at\":\"2026-01-01T00:00:00Z\",\"pid\":4711}\n\n"
	n := 0
	for name, text := range map[string]string{"stdout": stdout} {
		if n += len(text); text != "" {
			out += fmt.Sprintf("id: %d\nevent: %s\ndata: {\"data\":%q}\n\n", n, name, base64.StdEncoding.EncodeToString([]byte(text)))
		}
	}
	if stderr != "" {
		n += len(stderr)
		out += fmt.Sprintf("id: %d\nevent: stderr\ndata: {\"data\":%q}\n\n", n, base64.StdEncoding.EncodeToString([]byte(stderr)))
	}
	if exit != "" {
		out += fmt.Sprintf("id: %d\nevent: exit\ndata: %s\n\n", n, exit)
	}
	return out
}

func (p *platform) liveSessions(w http.ResponseWriter, r *http.Request) {
	p.answer(w, 200, api.LiveSessions{Items: append([]api.LiveSession{}, p.live...)})
}

func entry(path string, kind api.FileEntryType) api.FileEntry {
	owner := "user"
	return api.FileEntry{Path: path, Type: kind, Mode: "0644", Owner: &owner, Group: &owner, ModifiedAt: time.Unix(1000, 0)}
}

func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return "/home/user/" + path
}

func (p *platform) write(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	path := absolute(r.URL.Query().Get("path"))
	p.files[path] = string(b)
	p.answer(w, 200, entry(path, api.FileEntryTypeFile))
}

func (p *platform) read(w http.ResponseWriter, r *http.Request) {
	path := absolute(r.URL.Query().Get("path"))
	text, ok := p.files[path]
	switch {
	case path == "/dir":
		p.problem(w, space.CodeConflict, "read /dir: is a directory")
	case !ok:
		p.problem(w, space.CodeNotFound, "no such file or directory")
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		io.WriteString(w, text)
	}
}

func (p *platform) stat(w http.ResponseWriter, r *http.Request) {
	if s := p.sandboxes[r.PathValue("sandbox")]; s == nil || s.State != api.SandboxStateRunning {
		p.problem(w, space.CodeConflict, "the sandbox is suspended: it must run for this")
		return
	}
	path := absolute(r.URL.Query().Get("path"))
	switch _, ok := p.files[path]; {
	case path == "/dir" || path == "/":
		p.answer(w, 200, entry(path, api.FileEntryTypeDirectory))
	case path == "/link":
		e, target := entry(path, api.FileEntryTypeSymlink), "dir"
		e.Target = &target
		p.answer(w, 200, e)
	case ok:
		p.answer(w, 200, entry(path, api.FileEntryTypeFile))
	default:
		p.problem(w, space.CodeNotFound, "no such file or directory")
	}
}

// rig is a facade of such a platform.
type rig struct {
	*platform
	facade        *Facade
	control, data *httptest.Server
}

func newRig(t *testing.T) *rig {
	p := newPlatform(t)
	return newFacade(t, p, filepath.Join(t.TempDir(), "memory"))
}

// newFacade is another life of the facade of a platform.
func newFacade(t *testing.T, p *platform, memory string) *rig {
	f, err := New(Config{API: p.URL, Edge: p.URL, Endpoint: "http://e2b.example", Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{platform: p, facade: f, control: httptest.NewServer(f.Control()), data: httptest.NewServer(f.Data())}
	t.Cleanup(r.control.Close)
	t.Cleanup(r.data.Close)
	return r
}

// call sends what an SDK does, and reads the answer.
func call(t *testing.T, method, url, body string, header ...string) (status int, answer string, h http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
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
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// controlled calls the control API as Python's SDK 2.21.1 does.
func (r *rig) controlled(t *testing.T, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	return call(t, method, r.control.URL+path, body, append([]string{
		"X-API-KEY", goodKey, "User-Agent", "e2b-python-sdk/2.21.1", "Content-Type", "application/json", "package_version", "2.21.1", "lang", "python",
	}, header...)...)
}

// created makes a sandbox and returns its id and its token.
func (r *rig) created(t *testing.T) (id, token string) {
	t.Helper()
	status, body, _ := r.controlled(t, "POST", "/sandboxes", `{"templateID":"base","allow_internet_access":true,"envVars":{},"metadata":{},"secure":true,"timeout":300}`)
	var out struct{ SandboxID, EnvdAccessToken string }
	if err := json.Unmarshal([]byte(body), &out); err != nil || status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	return out.SandboxID, out.EnvdAccessToken
}
