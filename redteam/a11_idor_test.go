//go:build e2e

package redteam

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	space "github.com/space-platform/space"
	contract "github.com/space-platform/space/api"
	gen "github.com/space-platform/space/api/gen/http"
)

// row is what the matrix knows of an operation beyond openapi.yaml: who may do it, how it's asked for, and what the rightful answer is.
type row struct {
	operation string
	least     space.Role        // on the management API: the lowest role that may; "" for an operation that is open to all
	opens     []string          // on the edge: the materials that open it
	use       map[string]string // things to use for path parameters instead of those with their names
	query     string
	body      string
	headers   []string
	status    int  // the rightful answer; 0 is 200
	org       bool // it shows what the whole organisation has
}

// management is the API's rows in the order in which they're done: what destroys comes last.
var management = []row{
	{operation: "getHealth"}, {operation: "getReadiness"}, {operation: "getDocs"}, {operation: "getOpenAPI"},
	{operation: "getMe", least: space.RoleViewer}, {operation: "listRoles", least: space.RoleViewer}, {operation: "getNode", least: space.RoleViewer},
	{operation: "listSandboxes", least: space.RoleViewer}, {operation: "getSandbox", least: space.RoleViewer},
	{operation: "getSandboxMetrics", least: space.RoleViewer}, {operation: "listSandboxTokens", least: space.RoleViewer},
	{operation: "listSnapshots", least: space.RoleViewer}, {operation: "listGarbage", least: space.RoleViewer}, {operation: "collectGarbage", least: space.RoleDeveloper}, {operation: "listSandboxSnapshots", least: space.RoleViewer}, {operation: "getSnapshot", least: space.RoleViewer},
	{operation: "listSessions", least: space.RoleViewer}, {operation: "getSession", least: space.RoleViewer},
	{operation: "getOperation", least: space.RoleViewer}, {operation: "listTemplates", least: space.RoleViewer}, {operation: "listUploads", least: space.RoleViewer},
	{operation: "getTemplate", least: space.RoleViewer}, {operation: "getTemplateLogs", least: space.RoleViewer},
	{operation: "listProjects", least: space.RoleViewer}, {operation: "getProject", least: space.RoleViewer, use: map[string]string{"project": "own project"}},
	{operation: "listEvents", least: space.RoleViewer, query: "sandbox={sandbox}"},
	{operation: "listKeys", least: space.RoleAdmin}, {operation: "listUsers", least: space.RoleAdmin, org: true},
	{operation: "updateSandbox", least: space.RoleDeveloper, body: `{"metadata":{"a11":"rightful"}}`},
	{operation: "createSandboxToken", least: space.RoleDeveloper, body: `{}`, status: 201},
	{operation: "createFileURL", least: space.RoleDeveloper, body: `{"path":"/etc/passwd","operation":"read"}`, status: 201},
	{operation: "createSession", least: space.RoleDeveloper, body: `{"argv":["true"]}`, status: 201},
	{operation: "createAttachment", least: space.RoleDeveloper, status: 201},
	{operation: "createUpload", least: space.RoleDeveloper, body: `{}`, status: 201},
	{operation: "setTemplateTag", least: space.RoleDeveloper}, {operation: "setTemplateAlias", least: space.RoleDeveloper},
	{operation: "createKey", least: space.RoleAdmin, body: `{"name":"a11","role":"viewer"}`, status: 201},
	{operation: "createUser", least: space.RoleOwner, body: `{"name":"{unique}","role":"viewer"}`, status: 201},
	{operation: "createProject", least: space.RoleOwner, body: `{"name":"{unique}"}`, status: 201},
	{operation: "updateProject", least: space.RoleOwner, body: `{"quota":{"sandboxes":0}}`},
	{operation: "updateUser", least: space.RoleOwner, body: `{"role":"developer"}`},
	{operation: "createTemplate", least: space.RoleDeveloper, body: `{"name":"{unique}","template":"mini","steps":[{"run":"true"}]}`, status: 202},
	{operation: "deleteTemplate", least: space.RoleDeveloper, use: map[string]string{"template": "spare template"}, status: 204},
	{operation: "deleteTemplateTag", least: space.RoleDeveloper, status: 204}, {operation: "deleteTemplateAlias", least: space.RoleDeveloper, status: 204},
	{operation: "deleteUpload", least: space.RoleDeveloper, status: 204},
	{operation: "revokeFileURLs", least: space.RoleDeveloper, status: 204}, {operation: "revokeSandboxToken", least: space.RoleDeveloper, status: 204},
	{operation: "createSandbox", least: space.RoleDeveloper, body: `{"template":"{template}"}`, use: map[string]string{"template": "template id"}, status: 202},
	{operation: "pauseSandbox", least: space.RoleDeveloper, query: "wait=60s"}, {operation: "resumeSandbox", least: space.RoleDeveloper, query: "wait=60s"},
	{operation: "suspendSandbox", least: space.RoleDeveloper, query: "wait=60s"}, {operation: "restoreSandbox", least: space.RoleDeveloper, query: "wait=60s"},
	{operation: "wakeSandbox", least: space.RoleDeveloper, query: "wait=60s"}, {operation: "createSnapshot", least: space.RoleDeveloper, query: "wait=60s", status: 201},
	{operation: "forkSandbox", least: space.RoleDeveloper, query: "wait=60s", status: 201}, {operation: "rollbackSandbox", least: space.RoleDeveloper, query: "wait=60s"},
	{operation: "deleteSnapshot", least: space.RoleDeveloper, status: 204},
	{operation: "stopSandbox", least: space.RoleDeveloper, query: "wait=60s"}, {operation: "startSandbox", least: space.RoleDeveloper, query: "wait=60s"},
	{operation: "deleteSandbox", least: space.RoleDeveloper, query: "wait=60s"},
	{operation: "revokeKey", least: space.RoleAdmin, status: 204}, {operation: "deleteUser", least: space.RoleOwner, status: 204},
	{operation: "deleteProject", least: space.RoleOwner, status: 204},
}

// The materials of the edge.
const (
	ofSession = "attachment token"
	ofSandbox = "sandbox token"
	ofUpload  = "upload token"
	ofFile    = "signed URL"
)

// upgrade are the headers that begin a WebSocket.
var upgrade = []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}

// plane is the edge's rows.
var plane = []row{
	{operation: "attachSession", opens: []string{ofSession, ofSandbox}},
	{operation: "attachWebSocket", opens: []string{ofSession, ofSandbox}, headers: upgrade, status: 101},
	{operation: "sendStdin", opens: []string{ofSession, ofSandbox}, query: "offset=0", body: "x"},
	{operation: "resizeSession", opens: []string{ofSession, ofSandbox}, body: `{"rows":10,"cols":10}`, status: 204},
	{operation: "createSession", opens: []string{ofSandbox}, body: `{"argv":["true"]}`, status: 201},
	{operation: "listLiveSessions", opens: []string{ofSandbox}},
	{operation: "writeFile", opens: []string{ofSandbox, ofFile}, query: "path=/tmp/a11", body: "rightful"},
	{operation: "readFile", opens: []string{ofSandbox, ofFile}, query: "path=/tmp/a11"},
	{operation: "headFile", opens: []string{ofSandbox, ofFile}, query: "path=/tmp/a11"},
	{operation: "statFile", opens: []string{ofSandbox}, query: "path=/tmp/a11"},
	{operation: "listFiles", opens: []string{ofSandbox}, query: "path=/tmp"},
	{operation: "changeFile", opens: []string{ofSandbox}, query: "path=/tmp/a11", body: `{"mode":"0600"}`},
	{operation: "makeDirectory", opens: []string{ofSandbox}, body: `{"path":"/tmp/a11-dir"}`},
	{operation: "renameFile", opens: []string{ofSandbox}, body: `{"from":"/tmp/a11","to":"/tmp/a11-renamed"}`},
	{operation: "watchFiles", opens: []string{ofSandbox}, query: "path=/tmp"},
	{operation: "readArchive", opens: []string{ofSandbox}, query: "path=/tmp/a11-dir"},
	{operation: "writeArchive", opens: []string{ofSandbox}, query: "path=/tmp/a11-dir", body: strings.Repeat("\x00", 1024)},
	{operation: "removeFile", opens: []string{ofSandbox}, query: "path=/tmp/a11-renamed", status: 204},
	{operation: "putUpload", opens: []string{ofUpload}, body: "rightful"},
	{operation: "signalSession", opens: []string{ofSession, ofSandbox}, body: `{"signal":"SIGKILL"}`, status: 204},
}

// served is an operation of the contract.
type served struct {
	method, path string
	edge         bool
}

// contractOperations are the operations of openapi.yaml by id. One that both the API and the edge serve is there for each.
func contractOperations(t *testing.T) (api, edge map[string]served) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(contract.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	api, edge = map[string]served{}, map[string]served{}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			if slices.Contains(o.Tags, "data plane") {
				edge[o.OperationID] = served{method, path, true}
			}
			if !slices.Equal(o.Tags, []string{"data plane"}) {
				api[o.OperationID] = served{method, path, false}
			}
		}
	}
	return api, edge
}

// TestA11EveryOperationHasARow: an operation that is added to the contract must be added to the matrix.
func TestA11EveryOperationHasARow(t *testing.T) {
	api, edge := contractOperations(t)
	for name, x := range map[string]struct {
		rows []row
		ops  map[string]served
	}{"management": {management, api}, "plane": {plane, edge}} {
		var rows []string
		for _, r := range x.rows {
			rows = append(rows, r.operation)
		}
		slices.Sort(rows)
		if want := slices.Sorted(maps.Keys(x.ops)); !slices.Equal(rows, want) {
			t.Errorf("the matrix %s has the operations\n%v\nopenapi.yaml has\n%v", name, rows, want)
		}
	}
}

// things are ids by the names of path parameters.
type things map[string]string

// victim is one of everything, and what opens it.
type victim struct {
	mine, missing things
	roles         map[space.Role]string // a key of each
	materials     map[string]string     // what opens the edge's, by name
	url           string                // a signed URL's query for reading, with its own path
	writeURL      string
}

// makeVictim makes one of everything that the contract has, in the owner's project.
func makeVictim(t *testing.T) victim {
	t.Helper()
	do := func(method, path, body string, status int) reply {
		t.Helper()
		return ask(t, method, platform.api+path, platform.owner, body).want(t, status)
	}
	box := newSandbox(t)
	// One of its own: what is made from a recipe in an organisation's first project is every project's.
	private := decode[gen.Operation](t, do("POST", "/v1/templates?wait=60s", `{"name":"a11-private","template":"mini","steps":[{"run":"true"}]}`, 201))
	template := private.Template.Id
	session := box.session(t, `{"argv":["cat"],"tty":{"rows":2,"cols":3}}`)
	for e := range follow(t, session.Attachment.Url, session.Attachment.Token) {
		if e.name == "started" {
			break
		}
	}
	snapshot := decode[gen.Operation](t, do("POST", "/v1/sandboxes/"+box.id+"/snapshots?wait=60s", `{"name":"`+unique("a11")+`"}`, 201)).Snapshot.Id
	me := decode[gen.Me](t, do("GET", "/v1/me", "", 200))
	upload := decode[gen.Upload](t, do("POST", "/v1/uploads", `{}`, 201))
	sign := func(operation string) string {
		u := decode[gen.FileURL](t, do("POST", "/v1/sandboxes/"+box.id+"/file-urls", `{"path":"/tmp/a11","operation":"`+operation+`"}`, 201))
		_, query, _ := strings.Cut(u.Url, "?")
		return query
	}
	do("PUT", "/v1/templates/a11-private/tags/a11-tag", "", 200)
	do("PUT", "/v1/templates/a11-private/aliases/a11-alias", "", 200)
	spare := decode[gen.Operation](t, do("POST", "/v1/templates", `{"name":"a11-spare","template":"mini","steps":[{"run":"sleep 1000"}]}`, 202))
	t.Cleanup(func() { // what the matrix itself hasn't deleted
		ask(t, "DELETE", platform.api+"/v1/templates/"+spare.Template.Id, platform.owner, "")
		ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id, platform.owner, "")
		ask(t, "DELETE", platform.api+"/v1/templates/"+template, platform.owner, "")
	})
	v := victim{
		mine: things{
			"sandbox": box.id, "snapshot": snapshot, "session": session.Session.Id, "token": tokenOf(t, box.id).Token.Id, "upload": upload.Id, "own project": me.Project.Id,
			"template": "a11-private", "template id": template, "tag": "a11-tag", "alias": "a11-alias", "spare template": spare.Template.Id, "operation": spare.Id,
			"project": decode[gen.Project](t, do("POST", "/v1/projects", `{"name":"`+unique("a11")+`"}`, 201)).Id,
			"user":    decode[gen.User](t, do("POST", "/v1/users", `{"name":"`+unique("a11")+`","role":"viewer"}`, 201)).Id,
			"key":     keyOf(t, space.RoleViewer, "").Key.Id,
		},
		missing: things{
			"sandbox": space.NewID(space.PrefixSandbox), "snapshot": space.NewID(space.PrefixSnapshot), "session": space.NewID(space.PrefixSession), "token": space.NewID(space.PrefixToken),
			"upload": space.NewID(space.PrefixUpload), "own project": space.NewID(space.PrefixProject), "project": space.NewID(space.PrefixProject),
			"template": "a11-missing", "template id": space.NewID(space.PrefixTemplate), "tag": "a11-tag", "alias": "a11-alias", "spare template": space.NewID(space.PrefixTemplate),
			"operation": space.NewID(space.PrefixOperation), "user": space.NewID(space.PrefixUser), "key": space.NewID(space.PrefixKey),
		},
		roles:     map[space.Role]string{space.RoleOwner: platform.owner},
		materials: map[string]string{ofSession: session.Attachment.Token, ofSandbox: box.token, ofUpload: upload.Token},
		url:       sign("read"), writeURL: sign("write"),
	}
	for _, role := range []space.Role{space.RoleAdmin, space.RoleDeveloper, space.RoleViewer} {
		v.roles[role] = keyOf(t, role, "").Secret
	}
	return v
}

var parameterRE = regexp.MustCompile(`\{([a-z]+)\}`)

// request is a row's request about some things.
type request struct {
	method, url, body string
	headers           []string
	named             bool // it names one of the things
}

func (r row) about(t *testing.T, s served, of things) request {
	t.Helper()
	out := request{method: s.method, headers: slices.Clone(r.headers)}
	fill := func(text string) string {
		return parameterRE.ReplaceAllStringFunc(text, func(p string) string {
			name := strings.Trim(p, "{}")
			if name == "unique" {
				return unique("a11")
			}
			if as := r.use[name]; as != "" {
				name = as
			}
			id, ok := of[name]
			if !ok {
				t.Fatalf("%s: the victim has no %q: make one", r.operation, name)
			}
			out.named = true
			return id
		})
	}
	out.url = platform.api + fill(s.path)
	if s.edge {
		out.url = platform.edge + fill(s.path)
	}
	if r.query != "" {
		out.url += "?" + fill(r.query)
	}
	if out.body = fill(r.body); out.body != "" && out.body[0] == '{' {
		out.headers = append(out.headers, "Content-Type", "application/json")
	}
	return out
}

func (q request) as(t *testing.T, bearer string) reply {
	t.Helper()
	return ask(t, q.method, q.url, bearer, q.body, q.headers...)
}

// with adds parameters to the query.
func (q request) with(query string) request {
	sep := "?"
	if strings.Contains(q.url, "?") {
		sep = "&"
	}
	q.url += sep + query
	return q
}

// wantSame holds what is somebody else's against what doesn't exist: every byte and header is the same, but the request's id and the time.
func wantSame(t *testing.T, who string, foreign, missing reply) {
	t.Helper()
	as, ah, ab := foreign.same()
	bs, bh, bb := missing.same()
	if as != bs || ab != bb || !reflect.DeepEqual(ah, bh) {
		t.Errorf("%s: somebody else's is answered\n%d %v %s\nnobody's\n%d %v %s", who, as, ah, ab, bs, bh, bb)
	}
	if as < 400 {
		t.Errorf("%s is let in: %d %s", who, as, clip(ab))
	}
}

// wantRefused checks that a material doesn't open anything.
func wantRefused(t *testing.T, who string, a reply, statuses ...int) {
	t.Helper()
	if !slices.Contains(statuses, a.status) {
		t.Errorf("%s: %d %s, want %v", who, a.status, clip(a.body), statuses)
	}
}

// TestA11Management asks every operation of the management API for what belongs to one project, with everything that isn't a key of that
// project's with the role that it needs; then, with the lowest key that may, which shows that it was there all the time.
func TestA11Management(t *testing.T) {
	api, _ := contractOperations(t)
	v := makeVictim(t)
	_, other := boxes(t)
	elsewhere := decode[gen.Project](t, ask(t, "POST", platform.api+"/v1/projects", platform.owner, `{"name":"`+unique("a11")+`"}`).want(t, 201)).Id
	foreigners := map[string]string{"an owner of another organisation": stranger(t), "an admin of another project": keyOf(t, space.RoleAdmin, elsewhere).Secret}
	revoked := keyOf(t, space.RoleOwner, "")
	expiring := decode[gen.KeyCreated](t, ask(t, "POST", platform.api+"/v1/keys", platform.owner,
		`{"name":"expires","role":"owner","expires_at":"`+time.Now().Add(2*time.Second).UTC().Format(time.RFC3339Nano)+`"}`).want(t, 201)).Secret
	ask(t, "GET", platform.api+"/v1/me", revoked.Secret, "").want(t, 200)
	ask(t, "DELETE", platform.api+"/v1/keys/"+revoked.Key.Id, platform.owner, "").want(t, 204)
	eventually(t, callDeadline, "the key expires", func() bool { return ask(t, "GET", platform.api+"/v1/me", expiring, "").status == 401 })
	refused := map[string]string{
		"nobody": "", "a revoked key": revoked.Secret, "an expired key": expiring, "almost the key": platform.owner[:len(platform.owner)-1],
		"the sandbox's token": v.materials[ofSandbox], "another sandbox's token": other.token, "the session's attachment token": v.materials[ofSession],
		"an upload's token": v.materials[ofUpload], "a token's id": v.mine["token"], "a key's id": v.mine["key"],
	}
	for _, r := range management {
		s := api[r.operation]
		q := r.about(t, s, v.mine)
		if r.least == "" {
			q.as(t, "").want(t, 200)
			continue
		}
		for who, material := range refused {
			wantRefused(t, r.operation+" as "+who, q.as(t, material), 401)
		}
		wantRefused(t, r.operation+" by a signed URL", q.with(v.url).as(t, ""), 401)
		for who, key := range foreigners {
			r.attackFrom(t, who, key, s, v)
		}
		for role, key := range v.roles {
			if !r.least.AtMost(role) {
				wantRefused(t, r.operation+" as "+string(role), q.as(t, key), 403)
			}
		}
		r.wantRightful(t, string(r.least), q, v.roles[r.least])
	}
}

// attackFrom asks for a thing from elsewhere: it's answered like what doesn't exist. An operation about nothing in particular is answered
// from the asker's own project, with none of the victim's things in it.
func (r row) attackFrom(t *testing.T, who, key string, s served, v victim) {
	t.Helper()
	q := r.about(t, s, v.mine)
	who = r.operation + " as " + who
	switch {
	case s.method == http.MethodGet && !strings.Contains(s.path, "{") && !r.org:
		a := q.as(t, key)
		for what, id := range v.mine {
			if strings.Contains(a.body, id) && strings.Contains(id, "_") && !strings.Contains(q.url, id) {
				t.Errorf("%s shows a %s: %s", who, what, clip(a.body))
			}
		}
	case q.named:
		wantSame(t, who, q.as(t, key), r.about(t, s, v.missing).as(t, key))
	}
}

// TestA11Plane asks every operation of the edge for what is one sandbox's, with everything that doesn't open it; then with each material
// that does.
func TestA11Plane(t *testing.T) {
	_, edge := contractOperations(t)
	v := makeVictim(t)
	_, other := boxes(t)
	revoked := tokenOf(t, v.mine["sandbox"])
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+v.mine["sandbox"]+"/tokens/"+revoked.Token.Id, platform.owner, "").want(t, 204)
	expired := decode[gen.SandboxTokenCreated](t, ask(t, "POST", platform.api+"/v1/sandboxes/"+v.mine["sandbox"]+"/tokens", platform.owner, `{"expires_in_seconds":1}`).want(t, 201)).Secret
	eventually(t, callDeadline, "the token expires", func() bool {
		return ask(t, "GET", platform.edge+"/v1/sandboxes/"+v.mine["sandbox"]+"/files/stat?path=/", expired, "").status == 401
	})
	sibling := sandbox{id: v.mine["sandbox"]}.session(t, `{"argv":["true"]}`).Attachment.Token
	abroad := other.session(t, `{"argv":["true"]}`).Attachment.Token
	otherUpload := decode[gen.Upload](t, ask(t, "POST", platform.api+"/v1/uploads", platform.owner, `{}`).want(t, 201)).Token
	foreign := map[string]string{
		"another sandbox's token": other.token, "another session's token": sibling, "another sandbox's session's token": abroad, "another upload's token": otherUpload,
	}
	refused := map[string]string{
		"nobody": "", "the owner's key": platform.owner, "a stranger's key": stranger(t), "a revoked token": revoked.Secret, "an expired token": expired,
		"almost the token": v.materials[ofSandbox][:len(v.materials[ofSandbox])-1], "the sandbox's id": v.mine["sandbox"],
		"a capability that somebody made up": "CAESIGNhcGFiaWxpdHk", "an unsigned JWT": "eyJhbGciOiJub25lIn0.eyJzYW5kYm94IjoiKiJ9.",
	}
	for _, r := range plane {
		s := edge[r.operation]
		q := r.about(t, s, v.mine)
		for who, material := range refused {
			wantRefused(t, r.operation+" as "+who, q.as(t, material), 401)
		}
		for who, material := range foreign {
			a, b := q.as(t, material), r.about(t, s, v.missing).as(t, material)
			wantSame(t, r.operation+" as "+who, a, b)
			wantRefused(t, r.operation+" as "+who, a, 401, 403)
		}
		for name, material := range v.materials {
			if !slices.Contains(r.opens, name) {
				wantRefused(t, r.operation+" with "+name, q.as(t, material), 401)
			}
		}
		r.wantSignedURLsRefused(t, q, v)
		for _, name := range r.opens {
			r.wantOpen(t, name, q, v)
		}
	}
}

// wantSignedURLsRefused shows signed URLs to an operation that they aren't for.
func (r row) wantSignedURLsRefused(t *testing.T, q request, v victim) {
	t.Helper()
	base, _, _ := strings.Cut(q.url, "?")
	for name, query := range map[string]string{"reading": v.url, "writing": v.writeURL} {
		reads := q.method != http.MethodPut
		if slices.Contains(r.opens, ofFile) && reads == (name == "reading") {
			query = strings.Replace(query, "path=%2Ftmp%2Fa11", "path=%2Fetc%2Fpasswd", 1) // its own file is allowed
		}
		attack := q
		attack.url = base + "?" + query
		wantRefused(t, r.operation+" by a URL for "+name, attack.as(t, ""), 401)
		wantRefused(t, r.operation+" by a URL for "+name+" and a key", attack.as(t, platform.owner), 401)
	}
}

func (r row) wantOpen(t *testing.T, material string, q request, v victim) {
	t.Helper()
	bearer := v.materials[material]
	if material == ofFile {
		base, _, _ := strings.Cut(q.url, "?")
		if q.url = base + "?" + v.url; q.method == http.MethodPut {
			q.url = base + "?" + v.writeURL
		}
	}
	r.wantRightful(t, material, q, bearer)
}

// wantRightful asks as one who may. What isn't there yet (figures, of a machine that has just begun) is asked for again.
func (r row) wantRightful(t *testing.T, who string, q request, bearer string) {
	t.Helper()
	var a reply
	eventually(t, callDeadline, r.operation+" is there", func() bool { a = q.as(t, bearer); return a.status != http.StatusServiceUnavailable })
	if ok := a.status == cmp.Or(r.status, http.StatusOK) || r.operation == "writeFile" && a.status == http.StatusCreated; !ok {
		t.Errorf("%s with %s, which may: %d %s", r.operation, who, a.status, clip(a.body))
	}
	switch {
	case a.status != http.StatusAccepted:
	case r.operation == "createSandbox":
		ask(t, "DELETE", platform.api+"/v1/sandboxes/"+decode[gen.Operation](t, a).Sandbox.Id, platform.owner, "").want(t, 200, 202)
	case r.operation == "createTemplate":
		ask(t, "DELETE", platform.api+"/v1/templates/"+decode[gen.Operation](t, a).Template.Id, platform.owner, "").want(t, 204)
	}
}
