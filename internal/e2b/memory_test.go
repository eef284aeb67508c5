package e2b

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// count is how often the platform was asked for something.
func (p *platform) count(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, asked := range p.asked {
		if asked == name {
			n++
		}
	}
	return n
}

// again is the facade's next life.
func (r *rig) again(t *testing.T) *rig { return newFacade(t, r.platform, r.facade.config.Memory) }

// TestASignedURLOutlivesTheFacade opens a file with nothing but its URL, before and after a restart; of a sandbox that was killed nothing is left.
func TestASignedURLOutlivesTheFacade(t *testing.T) {
	first := newRig(t)
	id, token := first.created(t)
	first.files["/x"] = "kept"
	q := url.Values{"path": {"/x"}, "signature": {signatureOf(signed{path: "/x", operation: operationRead}, token)}}
	read := func(r *rig) (int, string) {
		status, body, _ := call(t, "GET", r.data.URL+"/files?"+q.Encode(), "")
		return status, body
	}
	second := first.again(t)
	for name, r := range map[string]*rig{"before": first, "after": second} {
		if status, body := read(r); status != 200 || body != "kept" {
			t.Errorf("%s the restart: %d %s", name, status, body)
		}
	}
	if info, err := os.Stat(first.facade.config.Memory); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if status, _, _ := second.controlled(t, "DELETE", "/sandboxes/"+id, ""); status != 204 {
		t.Fatal(status)
	}
	third := second.again(t)
	if status, body := read(third); status != 401 {
		t.Errorf("of a sandbox that is gone: %d %s", status, body)
	}
	if b, err := os.ReadFile(third.facade.config.Memory); err != nil || bytes.Contains(b, []byte(secret)) {
		t.Errorf("its token is still there: %s, %v", b, err)
	}
}

// TestAKeyKeepsItsToken connects again and again, after restarts too, and has one token. When that opens nothing any more there's another one.
func TestAKeyKeepsItsToken(t *testing.T) {
	r := newRig(t)
	id, token := r.created(t)
	issue := "POST /v1/sandboxes/sbx_" + id + "/tokens"
	for range 3 {
		r = r.again(t)
		for range 3 {
			if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":300}`); status != 200 || !strings.Contains(body, token) {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	if n := r.count(issue); n != 1 {
		t.Errorf("%d tokens were issued", n)
	}
	r.refused("GET /v1/sandboxes/sbx_"+id+"/files/stat", space.CodeUnauthenticated, "the token isn't valid")
	if status, body, _ := call(t, "GET", r.data.URL+"/health", "", headerToken, token); status != 401 {
		t.Errorf("%d %s", status, body)
	}
	if status, _, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":300}`); status != 200 {
		t.Error(status)
	}
	if n := r.count(issue); n != 3 { // the day's again, which is void, and a new one
		t.Errorf("%d tokens were asked for", n)
	}
}

// TestTheLastTokenMakesRoom connects to a sandbox that has as many tokens as it may: the oldest that was issued here ends.
func TestTheLastTokenMakesRoom(t *testing.T) {
	r := newRig(t)
	id, _ := r.created(t)
	r = newFacade(t, r.platform, filepath.Join(t.TempDir(), "another"))
	issue := "POST /v1/sandboxes/sbx_" + id + "/tokens"
	r.refused(issue, space.CodeQuotaExceeded, "the sandbox has 100 tokens")
	r.times[issue] = 1
	if status, body, _ := r.controlled(t, "POST", "/sandboxes/"+id+"/connect", `{"timeout":300}`); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if n := r.count("DELETE /v1/sandboxes/sbx_" + id + "/tokens/tok_2"); n != 1 {
		t.Errorf("the oldest token of ours was revoked %d times, of %v", n, r.asked)
	}
}

// TestABuildOutlivesTheFacade has a restart between each of its parts.
func TestABuildOutlivesTheFacade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	life := func(do func(f *Facade)) {
		f, err := New(Config{Edge: "http://127.0.0.1:1", Memory: path})
		if err != nil {
			t.Fatal(err)
		}
		do(f)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	name := "x"
	id := newUUID()
	life(func(f *Facade) {
		n := &build{owner: ownerOf("k"), id: id, began: time.Now(), uploads: map[string]string{}, create: client.TemplateCreate{Name: &name}, read: make(chan struct{})}
		if err := f.builds.add(n); err != nil {
			t.Fatal(err)
		}
		old := &build{owner: ownerOf("k"), id: newUUID(), began: time.Now().Add(-2 * buildLife), create: client.TemplateCreate{Name: &name}}
		if err := f.builds.add(old); err != nil {
			t.Fatal(err)
		}
	})
	life(func(f *Facade) {
		n, err := f.builds.latest("k", name)
		if err != nil || n.id != id || len(f.builds.byID) != 1 {
			t.Fatalf("%+v, %v, of %d", n, err, len(f.builds.byID))
		}
		n.uploads["hash"] = "upl_1"
		f.builds.noted(n)
	})
	life(func(f *Facade) {
		n, err := f.builds.get("k", id)
		if err != nil || n.uploads["hash"] != "upl_1" {
			t.Fatalf("%+v, %v", n, err)
		}
		n.template, n.steps = "tpl_1", []meaning{{1, "run x"}, {1, ""}, {3, "copy a to b"}}
		f.builds.noted(n)
	})
	life(func(f *Facade) {
		n, err := f.builds.get("k", id)
		if err != nil || n.template != "tpl_1" || !slices.Equal(n.steps, []meaning{{1, "run x"}, {1, ""}, {3, "copy a to b"}}) || n.stepName(3) != "3" {
			t.Errorf("%+v, %v", n, err)
		}
		if _, err := f.builds.get("another", id); err == nil {
			t.Error("another key sees it")
		}
	})
}

// TestMemoryTakesWhatItCanRead: a torn line, and what isn't known, are nothing; what no longer counts goes when the file is too long.
func TestMemoryTakesWhatItCanRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	text := `{"token":{"sandbox":"sbx_1","secret":"a"}}` + "\n" + `{"later":{}}` + "\nnonsense\n" + `{"token":{"sandbox":"sbx_1","secret":"b"}}` + "\n" + `{"token":{"sand`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := New(Config{Edge: "http://127.0.0.1:1", Memory: path})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.tokens.known) != 2 {
		t.Errorf("known are %v", f.tokens.known)
	}
	f.memory.size = maxMemory
	f.tokens.remember(access{"sbx_2", "c"})
	b, err := os.ReadFile(path)
	if want := 3; err != nil || bytes.Count(b, []byte("\n")) != want || f.memory.size != int64(len(b)) || !bytes.Contains(b, []byte(`"c"`)) {
		t.Errorf("%s, %v", b, err)
	}
	for n := range tokensEach + 5 { // the oldest go
		f.tokens.remember(access{"sbx_3", fmt.Sprint("s", n)})
	}
	if n := len(f.tokens.notes()); n != 3+tokensEach {
		t.Errorf("%d are noted", n)
	}
}
