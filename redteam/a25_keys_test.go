//go:build e2e

package redteam

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// within is how soon the end of a material must show, on what is open as well.
const within = 5 * time.Second

// held is something that is held open.
type held struct {
	what  string
	ended chan string // the last event, or the answer
}

// hold opens a stream and waits until it's open.
func hold(t *testing.T, what, to, bearer string) held {
	t.Helper()
	h := held{what, make(chan string, 1)}
	events := follow(t, to, bearer)
	go func() {
		last := ""
		for e := range events {
			last = e.name + " " + e.data
		}
		h.ended <- last
	}()
	return h
}

// ends waits for what is held open, which must end in time.
func (h held) ends(t *testing.T, since time.Time) {
	t.Helper()
	select {
	case last := <-h.ended:
		if took := time.Since(since); took > within {
			t.Errorf("%s ended after %s", h.what, took)
		}
		if len(leaked(last)) > 0 {
			t.Errorf("%s ended with %s", h.what, last)
		}
	case <-time.After(time.Until(since.Add(2 * within))):
		t.Errorf("%s goes on after %s", h.what, 2*within)
	}
}

// over waits until what is held open has come to its own end.
func (h held) over(t *testing.T) {
	t.Helper()
	select {
	case <-h.ended:
	case <-time.After(callDeadline):
		t.Fatalf("%s goes on", h.what)
	}
}

// goesOn checks that what is held open is open.
func (h held) goesOn(t *testing.T) {
	t.Helper()
	select {
	case last := <-h.ended:
		t.Errorf("%s ended with %s", h.what, last)
	default:
	}
}

// build begins a build that lasts, for its log and its operation.
func build(t *testing.T, name string) gen.Operation {
	t.Helper()
	op := decode[gen.Operation](t, ask(t, "POST", platform.api+"/v1/templates", platform.owner, `{"name":"`+name+`","template":"mini","steps":[{"run":"sleep 1000"}]}`).want(t, 201, 202))
	t.Cleanup(func() {
		ask(t, "DELETE", platform.api+"/v1/templates/"+op.Template.Id, platform.owner, "")
	})
	return op
}

// TestA25Keys ends keys in every way while they hold everything open that a key can: all of it ends in time, and nothing of another key's.
func TestA25Keys(t *testing.T) {
	boxes(t)
	op := build(t, "a25")
	other := hold(t, "another key's feed", platform.api+"/v1/events", platform.owner)
	project := decode[gen.Project](t, ask(t, "POST", platform.api+"/v1/projects", platform.owner, `{"name":"`+unique("a25")+`"}`).want(t, 201)).Id
	user := func(role string) string {
		return decode[gen.User](t, ask(t, "POST", platform.api+"/v1/users", platform.owner, `{"name":"`+unique("a25")+`","role":"`+role+`"}`).want(t, 201)).Id
	}
	ofUser := func(id string) gen.KeyCreated {
		return decode[gen.KeyCreated](t, ask(t, "POST", platform.api+"/v1/keys", platform.owner, `{"name":"a25","role":"developer","user":"`+id+`"}`).want(t, 201))
	}
	removed := user("developer")
	for name, x := range map[string]struct {
		key  gen.KeyCreated
		log  bool // the build is its project's
		ends func(gen.KeyCreated)
	}{
		"revoked": {keyOf(t, space.RoleDeveloper, ""), true, func(k gen.KeyCreated) {
			ask(t, "DELETE", platform.api+"/v1/keys/"+k.Key.Id, platform.owner, "").want(t, 204)
		}},
		"its user is removed": {ofUser(removed), true, func(gen.KeyCreated) {
			ask(t, "DELETE", platform.api+"/v1/users/"+removed, platform.owner, "").want(t, 204)
		}},
		"its project is deleted": {keyOf(t, space.RoleDeveloper, project), false, func(gen.KeyCreated) {
			ask(t, "DELETE", platform.api+"/v1/projects/"+project, platform.owner, "").want(t, 204)
		}},
	} {
		open := []held{hold(t, name+": events", platform.api+"/v1/events", x.key.Secret)}
		if x.log {
			open = append(open, hold(t, name+": a build's log", platform.api+"/v1/templates/"+op.Template.Id+"/logs", x.key.Secret), waiting(t, name, op.Id, x.key.Secret))
		}
		since := time.Now()
		x.ends(x.key)
		for _, h := range open {
			h.ends(t, since)
		}
		if a := ask(t, "GET", platform.api+"/v1/me", x.key.Secret, ""); a.status != 401 {
			t.Errorf("%s: the key is answered %d", name, a.status)
		}
	}
	other.goesOn(t)
}

// waiting holds a request that waits for an operation.
func waiting(t *testing.T, name, op, key string) held {
	h := held{name + ": a wait", make(chan string, 1)}
	go func() { h.ended <- ask(t, "GET", platform.api+"/v1/operations/"+op+"?wait=120s", key, "").body }()
	return h
}

// TestA25Expiry lets a key expire under an open stream.
func TestA25Expiry(t *testing.T) {
	expires := time.Now().Add(3 * time.Second)
	body, _ := json.Marshal(map[string]any{"name": "a25", "role": "viewer", "expires_at": expires.UTC().Format(time.RFC3339Nano)})
	k := decode[gen.KeyCreated](t, ask(t, "POST", platform.api+"/v1/keys", platform.owner, string(body)).want(t, 201))
	hold(t, "events of a key that expires", platform.api+"/v1/events", k.Secret).ends(t, expires)
}

// TestA25Downgrade takes rights from a user whose key is in use: the next request has them no more, nor has what is open and needs them.
func TestA25Downgrade(t *testing.T) {
	boxes(t)
	user := decode[gen.User](t, ask(t, "POST", platform.api+"/v1/users", platform.owner, `{"name":"`+unique("a25")+`","role":"admin"}`).want(t, 201)).Id
	k := decode[gen.KeyCreated](t, ask(t, "POST", platform.api+"/v1/keys", platform.owner, `{"name":"a25","role":"admin","user":"`+user+`"}`).want(t, 201)).Secret
	ask(t, "GET", platform.api+"/v1/keys", k, "").want(t, 200)
	feed := hold(t, "a viewer's feed", platform.api+"/v1/events", k)
	ask(t, "PATCH", platform.api+"/v1/users/"+user, platform.owner, `{"role":"viewer"}`).want(t, 200)
	ask(t, "GET", platform.api+"/v1/keys", k, "").want(t, 403)
	ask(t, "POST", platform.api+"/v1/sandboxes", k, `{"template":"mini"}`).want(t, 403)
	feed.goesOn(t) // a viewer may read it
	ask(t, "DELETE", platform.api+"/v1/users/"+user, platform.owner, "").want(t, 204)
}

// TestA25LastOwner tries to leave an organisation without a key of an owner, from all sides at once.
func TestA25LastOwner(t *testing.T) {
	key := stranger(t)
	me := decode[gen.Me](t, ask(t, "GET", platform.api+"/v1/me", key, "").want(t, 200))
	ids := []string{me.Key.Id}
	for _, k := range decode[gen.KeyPage](t, ask(t, "GET", platform.api+"/v1/keys?limit=100", key, "").want(t, 200)).Items {
		if k.Id != me.Key.Id && k.RevokedAt == nil {
			ids = append(ids, k.Id)
		}
	}
	for _, a := range race(t, len(ids), func(n int) reply { return ask(t, "DELETE", platform.api+"/v1/keys/"+ids[n], key, "") }) {
		if a.status != 204 && a.status != 409 && a.status != 401 {
			t.Errorf("revoke: %d %s", a.status, a.body)
		}
	}
	left := 0
	err := database(t).QueryRow(t.Context(), "SELECT count(*) FROM api_keys k JOIN projects p ON p.id = k.project WHERE p.org = $1 AND k.role = 'owner' AND k.revoked_at IS NULL", me.Org.Id).Scan(&left)
	if err != nil || left != 1 {
		t.Errorf("%d keys of an owner are left, %v", left, err)
	}
}

// bring holds a request whose body brings a piece and then nothing.
func bring(t *testing.T, what, method, to, bearer string, first []byte) held {
	t.Helper()
	body, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	go w.Write(first)
	req, err := http.NewRequestWithContext(bounded(t), method, to, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	h := held{what, make(chan string, 1)}
	go func() { h.ended <- answered(req) }()
	return h
}

// answered is a request's answer, or why there's none.
func answered(req *http.Request) string {
	resp, err := direct.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return fmt.Sprintf("%d %s %v", resp.StatusCode, b, err)
}

// take holds an answer of which a piece has come, and whose rest nobody reads until the material has ended.
func take(t *testing.T, what, to, bearer string) (h held, read func()) {
	t.Helper()
	req, err := http.NewRequestWithContext(bounded(t), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	resp, err := direct.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v", what, resp.StatusCode, err)
	}
	h = held{what, make(chan string, 1)}
	return h, func() {
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("%s came whole, %d bytes more", what, n)
		}
		h.ended <- ""
	}
}

// begunArchive is the beginning of an archive, of which much is to come.
func begunArchive(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := w.WriteHeader(&tar.Header{Name: "large", Mode: 0o644, Size: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestA25SandboxToken revokes a token of a sandbox under all that it has opened; what another token has opened goes on.
func TestA25SandboxToken(t *testing.T) {
	box, _ := boxes(t)
	makeFile := box.session(t, `{"argv":["sh","-c","mkdir -p /tmp/large && head -c 33554432 /dev/zero >/tmp/large/f"]}`)
	hold(t, "the file's making", makeFile.Attachment.Url, makeFile.Attachment.Token).over(t)
	list := func(pattern string) bool {
		return strings.Contains(ask(t, "GET", box.path("/files/list?path=/tmp&depth=2"), box.token, "").want(t, 200).body, pattern)
	}
	open := func(bearer, name string) (all []held) {
		made := decode[gen.SessionCreated](t, ask(t, "POST", box.path("/sessions"), bearer, `{"argv":["sh","-c","touch /tmp/`+name+`-begun; head -c 1 >/tmp/`+name+`-byte; touch /tmp/`+name+`-got; sleep 1000"],"open_stdin":true}`).want(t, 201))
		t.Cleanup(func() {
			ask(t, "POST", platform.edge+"/v1/sessions/"+made.Session.Id+"/signal", box.token, `{"signal":"SIGKILL"}`)
		})
		session := platform.edge + "/v1/sessions/" + made.Session.Id
		all = append(all, hold(t, "an attach", made.Attachment.Url, made.Attachment.Token), hold(t, "an attach by the sandbox's token", session+"/attach", bearer),
			hold(t, "a watch", box.path("/files/watch?path=/tmp"), bearer))
		eventually(t, callDeadline, "the session begins", func() bool { return list(name + "-begun") })
		all = append(all, bring(t, "input", "POST", session+"/stdin?offset=0", bearer, []byte("x")))
		eventually(t, callDeadline, "the input arrives", func() bool { return list(name + "-got") })
		return append(all, bring(t, "an upload", "PUT", box.path("/files/content?path=/tmp/"+name), bearer, bytes.Repeat([]byte("x"), 1<<20)),
			bring(t, "an upload of an archive", "PUT", box.path("/files/archive?path=/tmp/"+name+"-tree"), bearer, begunArchive(t)))
	}
	token := tokenOf(t, box.id)
	other, mine := open(box.token, "other"), open(token.Secret, "mine")
	signed := decode[gen.FileURL](t, ask(t, "POST", platform.api+"/v1/sandboxes/"+box.id+"/file-urls", platform.owner, `{"path":"/tmp/large/f","operation":"read"}`).want(t, 201)).Url
	var reads []func()
	for what, x := range map[string][2]string{
		"a download": {box.path("/files/content?path=/tmp/large/f"), token.Secret}, "a download of a directory": {box.path("/files/archive?path=/tmp/large"), token.Secret}, "a signed URL": {signed, ""},
	} {
		h, read := take(t, what, x[0], x[1])
		mine, reads = append(mine, h), append(reads, read)
	}
	since := time.Now()
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"/tokens/"+token.Token.Id, platform.owner, "").want(t, 204)
	ask(t, "DELETE", platform.api+"/v1/sandboxes/"+box.id+"/file-urls", platform.owner, "").want(t, 204)
	for i, h := range mine {
		if n := i - (len(mine) - len(reads)); n >= 0 { // those that the edge has cut, while nothing was read
			reads[n]()
		}
		h.ends(t, since)
	}
	for _, h := range other {
		h.goesOn(t)
	}
	if list(`"/tmp/mine"`) {
		t.Error("what a revoked token had begun to write is there")
	}
}
