package cli

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// fake is a platform as small as the plays need it: templates base (ready) and mini (to be built), and commands that it knows by name.
type fake struct {
	*httptest.Server
	mu        sync.Mutex
	sandboxes []gen.Sandbox
	sessions  map[string]gen.SessionCreate
	signals   map[string]chan string // by session: what it was sent
	tokens    map[string]string      // of sandboxes, that are valid: the secret by the id
	issued    int
	started   chan struct{} // receives when a command that hangs was started
	snapshots []gen.Snapshot
	uploads   []string           // what was uploaded; before that, its sum
	made      gen.TemplateCreate // the newest template that was ordered
	told      chan string        // receives the signals that a command has got and didn't end of
}

const (
	fakeKey   = "space_test"
	viewerKey = "space_viewer" // which opens no data plane
)

// maxFakeTokens is how many tokens may be valid at once; the real platform allows a hundred.
const maxFakeTokens = 2

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newFake(t testing.TB) *fake {
	f := &fake{sessions: map[string]gen.SessionCreate{}, signals: map[string]chan string{}, tokens: map[string]string{}, started: make(chan struct{}, 1), told: make(chan string, 4)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/sandboxes", f.create)
	mux.HandleFunc("GET /v1/sandboxes", f.list)
	mux.HandleFunc("GET /v1/sandboxes/{id}", f.get)
	mux.HandleFunc("DELETE /v1/sandboxes/{id}", f.remove)
	mux.HandleFunc("POST /v1/sandboxes/{id}/sessions", f.session)
	mux.HandleFunc("POST /v1/sandboxes/{id}/tokens", f.token)
	mux.HandleFunc("DELETE /v1/sandboxes/{id}/tokens/{token}", f.revoke)
	mux.HandleFunc("GET /v1/sandboxes/{id}/live-sessions", f.live)
	mux.HandleFunc("PUT /v1/sandboxes/{id}/files/content", f.write)
	mux.HandleFunc("GET /v1/sessions/{id}/attach", f.attach)
	mux.HandleFunc("POST /v1/sessions/{id}/signal", f.signal)
	mux.HandleFunc("POST /v1/sessions/{id}/stdin", f.stdin)
	f.more(mux)
	f.history(mux)
	mux.HandleFunc("GET /v1/templates", func(w http.ResponseWriter, _ *http.Request) {
		tagged, earlier, failed := template("base"), template("base"), template("broken")
		tagged.Tags, tagged.Aliases = []string{"v2", "stable"}, []string{"python"}
		earlier.Id, earlier.Current = "tpl_earlier", false
		failed.State = gen.TemplateStateFailed
		answer(w, 200, gen.TemplatePage{Items: []gen.Template{failed, tagged, earlier}})
	})
	mux.HandleFunc("GET /v1/templates/{name}", func(w http.ResponseWriter, r *http.Request) { answer(w, 200, template(r.PathValue("name"))) })
	f.builds(mux)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.admits(r.URL.Path, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
			refuse(w, 401, "unauthenticated", "the API key isn't valid")
			return
		}
		if r.Header.Get("Authorization") == "Bearer "+viewerKey && r.Method != http.MethodGet {
			refuse(w, 403, "forbidden", "the role viewer hasn't the permission for that")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// dataPlane are the paths that a sandbox token opens; the first of them takes a key as well.
var dataPlane = regexp.MustCompile(`^/v1/sandboxes/[^/]+/(sessions|live-sessions|files/content|files/stat)$|^/v1/sessions/`)

// admits reports whether what is shown opens a path.
func (f *fake) admits(path, shown string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case strings.HasPrefix(shown, "spacesbx_"):
		return dataPlane.MatchString(path) && slices.Contains(slices.Collect(maps.Values(f.tokens)), shown)
	case strings.HasPrefix(path, "/v1/uploads/") && shown == "spaceupl_1":
		return true
	case strings.HasPrefix(path, "/v1/sessions/"):
		return shown == "spaceatt_1"
	}
	return (shown == fakeKey || shown == viewerKey) && (!dataPlane.MatchString(path) || strings.HasSuffix(path, "/sessions"))
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(document)
}

func refuse(w http.ResponseWriter, status int, code, detail string) {
	id := "req_1"
	answer(w, status, gen.Problem{Code: code, Title: code, Detail: &detail, Status: status, RequestId: &id})
}

func template(name string) gen.Template {
	return gen.Template{Id: "tpl_" + name, Name: name, Current: true, State: gen.TemplateStateReady, Vcpus: 1, MemoryMb: 512, DiskMb: 2048, CreatedAt: epoch}
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	var in gen.SandboxCreate
	json.NewDecoder(r.Body).Decode(&in)
	if in.Template != "base" && in.Template != "sticky" && in.Template != "slow" {
		refuse(w, 404, "not_found", "the template does not exist")
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := gen.Sandbox{Id: fmt.Sprintf("sbx_%d", len(f.sandboxes)+1), Template: in.Template, State: gen.SandboxStateRunning, Vcpus: 1, MemoryMb: 512, DiskMb: 2048,
		Execution: gen.Execution{Id: "exe_1", Epoch: 1, Node: "n"}, Metadata: gen.Metadata{}, CreatedAt: epoch, UpdatedAt: epoch}
	s.Lifecycle = in.Lifecycle
	if in.Metadata != nil {
		s.Metadata = *in.Metadata
	}
	if l := in.Lifetime; l != nil && l.Seconds != nil {
		deadline := epoch.Add(time.Duration(*l.Seconds) * time.Second)
		s.Lifetime = &gen.Lifetime{Deadline: &deadline, OnExpiry: l.OnExpiry}
	}
	f.sandboxes = append(f.sandboxes, s)
	if in.Template == "slow" {
		answer(w, 202, gen.Operation{Id: "op_slow", Kind: gen.OperationKindCreateSandbox, Status: gen.OperationStatusRunning, Sandbox: &s, CreatedAt: epoch})
		return
	}
	answer(w, 201, gen.Operation{Id: "op_1", Kind: gen.OperationKindCreateSandbox, Status: gen.OperationStatusSucceeded, Sandbox: &s, CreatedAt: epoch})
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	page := gen.SandboxPage{Items: []gen.Sandbox{}}
	for _, s := range f.sandboxes {
		if passes(s, r.URL.Query()) {
			page.Items = append(page.Items, s)
		}
	}
	answer(w, 200, page)
}

func passes(s gen.Sandbox, q url.Values) bool {
	for _, m := range q["metadata"] {
		if name, value, _ := strings.Cut(m, "="); s.Metadata[name] != value {
			return false
		}
	}
	return len(q["state"]) == 0 || slices.Contains(q["state"], string(s.State))
}

// find returns a sandbox that exists, or refuses.
func (f *fake) find(w http.ResponseWriter, id string) *gen.Sandbox {
	for i := range f.sandboxes {
		if f.sandboxes[i].Id == id {
			return &f.sandboxes[i]
		}
	}
	refuse(w, 404, "not_found", "the sandbox does not exist")
	return nil
}

func (f *fake) get(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.find(w, r.PathValue("id")); s != nil {
		answer(w, 200, s)
	}
}

func (f *fake) remove(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.find(w, r.PathValue("id")); s != nil {
		if s.Template == "sticky" { // nobody hears whether it's deleted
			f.mu.Unlock()
			f.told <- "DELETE"
			<-r.Context().Done()
			f.mu.Lock()
			return
		}
		s.State = gen.SandboxStateDeleted
		answer(w, 200, gen.Operation{Id: "op_2", Kind: gen.OperationKindDeleteSandbox, Status: gen.OperationStatusSucceeded, Sandbox: s, CreatedAt: epoch})
	}
}

func (f *fake) session(w http.ResponseWriter, r *http.Request) {
	var in gen.SessionCreate
	json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(w, r.PathValue("id")) == nil {
		return
	}
	id := fmt.Sprintf("ses_%d", len(f.sessions)+1)
	f.sessions[id], f.signals[id] = in, make(chan string, 4)
	answer(w, 201, gen.SessionCreated{Session: gen.Session{Id: id, Sandbox: r.PathValue("id"), State: gen.SessionStateCreated, CreatedAt: epoch},
		Attachment: gen.Attachment{Token: "spaceatt_1", Url: f.URL + "/v1/sessions/" + id + "/attach", ExpiresAt: epoch.Add(time.Minute)}})
}

func (f *fake) token(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.tokens) == maxFakeTokens {
		refuse(w, 403, "quota_exceeded", "the sandbox has too many valid tokens")
		return
	}
	f.issued++
	id, secret := fmt.Sprint("tok_", f.issued), fmt.Sprint("spacesbx_", f.issued)
	f.tokens[id] = secret
	answer(w, 201, gen.SandboxTokenCreated{Secret: secret, Url: f.URL + "/v1/sandboxes/" + r.PathValue("id"), Token: gen.SandboxToken{Id: id, ExpiresAt: epoch.Add(time.Hour), CreatedAt: epoch}})
}

func (f *fake) revoke(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tokens, r.PathValue("token"))
	w.WriteHeader(http.StatusNoContent)
}

func (f *fake) live(w http.ResponseWriter, r *http.Request) {
	answer(w, 200, gen.LiveSessions{Items: []gen.LiveSession{{Id: "ses_1", State: gen.LiveSessionStateRunning, Argv: []string{"greet"}}}})
}

func (f *fake) write(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	answer(w, 201, gen.FileEntry{Path: r.URL.Query().Get("path"), Type: gen.FileEntryTypeFile, Size: n, Mode: "0644", ModifiedAt: epoch})
}

func (f *fake) signal(w http.ResponseWriter, r *http.Request) {
	var in gen.SessionSignal
	json.NewDecoder(r.Body).Decode(&in)
	io.Copy(io.Discard, r.Body) // else nobody notices that the client has gone
	f.mu.Lock()
	to, argv := f.signals[r.PathValue("id")], deref(f.sessions[r.PathValue("id")].Argv)
	f.mu.Unlock()
	if to == nil {
		refuse(w, 404, "not_found", "the session does not exist")
		return
	}
	if argv[0] == "deaf" { // the platform hangs
		f.told <- in.Signal
		<-r.Context().Done()
		return
	}
	to <- in.Signal
	w.WriteHeader(http.StatusNoContent)
}

// stdin appends what comes to what the session was created with, as the real one does.
func (f *fake) stdin(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.sessions[r.PathValue("id")]
	all := append(*cmp.Or(in.Stdin, &[]byte{}), b...)
	in.Stdin = &all
	if r.URL.Query().Get("close") == "true" {
		if in.OpenStdin != nil {
			close(f.signals[r.PathValue("id")])
		}
		in.OpenStdin = nil
	}
	f.sessions[r.PathValue("id")] = in
	answer(w, 200, gen.StdinReceived{Received: int64(len(all))})
}

// stream is a session's events as they are sent.
type stdStream struct {
	w      io.Writer
	length int
}

func (s *stdStream) send(event, data string) {
	fmt.Fprintf(s.w, "event: %s\nid: %d\ndata: %s\n\n", event, s.length, data)
}

func (s *stdStream) output(name, text string) {
	s.length += len(text)
	s.send(name, fmt.Sprintf(`{"data":%q}`, base64.StdEncoding.EncodeToString([]byte(text))))
}

// sleeper is in a sandbox that is suspended once it has said something, and woken by somebody else while its client is away.
func sleeper(s *stdStream, r *http.Request) {
	if r.Header.Get("Last-Event-ID") == "" {
		s.send("started", `{"at":"2026-01-02T03:04:05Z"}`)
		s.output("stdout", "before\n")
		s.send("ended", `{"reason":"suspended"}`)
		return
	}
	s.length = len("before\n")
	s.output("stdout", map[bool]string{true: "after\n", false: "woken\n"}[r.URL.Query().Get("wake") == "false"])
	s.send("exit", `{"code":0}`)
}

func (f *fake) attach(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	in, signals := f.sessions[r.PathValue("id")], f.signals[r.PathValue("id")]
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stdStream{w: w}
	if in.Argv != nil && (*in.Argv)[0] == "sleep" {
		sleeper(s, r)
		return
	}
	if in.Argv == nil || (*in.Argv)[0] != "nonsense" {
		s.send("started", `{"at":"2026-01-02T03:04:05Z"}`)
	}
	if in.Shell != nil && in.Tty != nil { // nobody types
		s.send("exit", `{"code":0}`)
		return
	}
	if in.Shell != nil { // it does nothing but repeat what it's told
		in.Argv = &[]string{"cat"}
	}
	switch argv := *in.Argv; argv[0] {
	case "greet":
		s.output("stdout", "hello\n")
		s.output("stderr", "warned\n")
		s.send("exit", `{"code":0}`)
	case "cat":
		if in.OpenStdin != nil {
			w.(http.Flusher).Flush()
			<-signals // closed when all input has come
			f.mu.Lock()
			in = f.sessions[r.PathValue("id")]
			f.mu.Unlock()
		}
		if in.Stdin != nil {
			for piece := range slices.Chunk(*in.Stdin, 32<<10) {
				s.output("stdout", string(piece))
			}
		}
		s.send("exit", `{"code":0}`)
	case "describe":
		s.output("stdout", fmt.Sprintf("user=%s cwd=%s env=%v args=%q\n", deref(in.User), deref(in.Cwd), deref(in.Env), argv[1:]))
		s.send("exit", `{"code":0}`)
	case "fail":
		s.send("exit", `{"code":3}`)
	case "die":
		s.send("exit", `{"code":null,"signal":"SIGKILL"}`)
	case "late":
		s.send("exit", `{"code":null,"signal":"SIGKILL","timed_out":true}`)
	case "stop":
		s.send("exit", `{"code":null,"signal":"SIGTERM","stopped":true}`)
	case "drop":
		s.output("stdout", "before\n")
		s.length += 1000
		s.send("gap", `{"from":7,"to":1007}`)
		s.output("stdout", "after\n")
		s.send("exit", `{"code":`+cmp.Or(strings.Join(argv[1:], ""), "0")+`}`)
	case "join": // whoever comes has missed something already
		s.length = 1000
		s.send("gap", `{"from":0,"to":1000}`)
		s.output("stdout", "the rest\n")
		s.send("exit", `{"code":0}`)
	case "lose":
		s.send("lost", `{"type":"","title":"","status":410,"code":"execution_lost","detail":"the sandbox's machine is gone"}`)
	case "flood": // until it's told that nobody reads
		for {
			s.output("stdout", strings.Repeat("x\n", 1000))
			select {
			case got := <-signals:
				s.send("exit", fmt.Sprintf(`{"code":null,"signal":%q}`, got))
				return
			default:
			}
		}
	case "hang", "stubborn", "deaf": // a stubborn one ends of SIGKILL only
		w.(http.Flusher).Flush()
		select {
		case f.started <- struct{}{}:
		default: // nobody waits for it
		}
		for {
			select {
			case got, open := <-signals:
				if !open { // its input has ended
					signals = nil
					continue
				}
				if argv[0] == "stubborn" && got != "SIGKILL" {
					f.told <- got
					continue
				}
				s.send("exit", fmt.Sprintf(`{"code":null,"signal":%q}`, got))
				return
			case <-r.Context().Done():
				return
			}
		}
	default:
		s.send("exit", `{"code":127,"error":"`+argv[0]+`: not found"}`)
	}
}
