//go:build e2e

package redteam

import (
	"strings"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
)

// TestA28LeaksAreFound shows the search of errors what it's for: it must find each, and must not cry at what an error may say.
func TestA28LeaksAreFound(t *testing.T) {
	for _, bad := range []string{
		"goroutine 12 [running]:", "/src/x.go:12", "runtime error: index out of range", `ERROR: duplicate key value violates unique constraint "x" (SQLSTATE 23505)`, "select id from keys",
		"open " + platform.instance.DataDir() + "/x", "dial unix " + platform.instance.RunDir() + "/a.sock: connect: connection refused", "exe_abcdefghijklmnop", "pid 4711", "github.com/x/y",
		"spaceatt_" + strings.Repeat("a", 52), "on node " + platform.instance.Node(),
	} {
		if len(leaked(bad)) == 0 {
			t.Errorf("nothing is found in %q", bad)
		}
	}
	for _, good := range []string{"no such sandbox", "the file /etc/shadow: permission denied", `cursor is not a cursor of this API`, "the key's role viewer doesn't have the permission sandboxes:write"} {
		if found := leaked(good); len(found) > 0 {
			t.Errorf("%q: %v", good, found)
		}
	}
	if found := leaked("field /var/tmp/x is wrong", `{"path":"/var/tmp/x"}`); len(found) > 0 {
		t.Errorf("what the client sent: %v", found)
	}
}

// TestA28EveryOperation calls each operation of the contract with nonsense in every place: ask looks at every error.
func TestA28EveryOperation(t *testing.T) {
	box, _ := boxes(t)
	before := errorsSeen.Load()
	api, edge := contractOperations(t)
	for _, s := range []map[string]served{api, edge} {
		for _, o := range s {
			base, bearer := platform.api, platform.owner
			if o.edge {
				base, bearer = platform.edge, box.token
			}
			for _, id := range []string{box.id, "x", "%00", "%ff", "sbx_'", strings.Repeat("a", 300)} {
				path := parameterRE.ReplaceAllLiteralString(o.path, id)
				if id == box.id && o.method == "DELETE" {
					continue // the shared one
				}
				for _, query := range []string{"", "?x=1", "?%zz", "?path=%00&user=%00", "?path=%ff&user=%ff", "?user=%ff&path=/", "?wait=1", "?limit=x&cursor=x&metadata=x&state=x&offset=x&depth=x"} {
					if id == box.id && query == "" {
						continue // it might be right
					}
					ask(t, o.method, base+path+query, bearer, map[bool]string{true: "{", false: ""}[o.method != "GET" && o.method != "DELETE" && o.method != "HEAD"], "Last-Event-ID", "x", "Range", "bytes=x", "Idempotency-Key", strings.Repeat("k", 200))
				}
			}
		}
	}
	if n := errorsSeen.Load() - before; n < 500 {
		t.Errorf("only %d errors were seen", n)
	}
}

// TestA28FailuresInside has the platform itself fail at something, and reads what it says: of an operation, of a build, of a session.
func TestA28FailuresInside(t *testing.T) {
	box, _ := boxes(t)
	upload := decode[gen.Upload](t, ask(t, "POST", platform.api+"/v1/uploads", platform.owner, `{}`).want(t, 201))
	ask(t, "PUT", upload.Url, upload.Token, strings.Repeat("this is no archive ", 100)).want(t, 200)
	for what, source := range map[string]string{
		"a build of no archive": `"rootfs":"` + upload.Id + `"`, "a build of no image": `"archive":"` + upload.Id + `"`, "a build from nowhere": `"image":"127.0.0.1:1/none:1"`,
		"a build from the metadata service": `"image":"169.254.169.254/x:1"`,
	} {
		op := decode[gen.Operation](t, ask(t, "POST", platform.api+"/v1/templates?wait=60s", platform.owner, `{"name":"a28",`+source+`}`).want(t, 201))
		if op.Template == nil {
			t.Fatalf("%s: %+v", what, op)
		}
		if found := leaked(*op.Error.Detail, source); len(found) > 0 {
			t.Errorf("%s tells %v: %s", what, found, *op.Error.Detail)
		}
		for _, line := range decode[gen.LogPage](t, ask(t, "GET", platform.api+"/v1/templates/"+op.Template.Id+"/logs?limit=100", platform.owner, "").want(t, 200)).Items {
			if found := leaked(line.Text, source); len(found) > 0 {
				t.Errorf("the log of %s tells %v: %s", what, found, line.Text)
			}
		}
		ask(t, "DELETE", platform.api+"/v1/templates/"+op.Template.Id, platform.owner, "").want(t, 204)
	}
	for _, body := range []string{`{"argv":["/dev/null"]}`, `{"argv":["/"]}`, `{"argv":["true"],"cwd":"/proc/1/fd"}`} {
		if out := box.run(t, body); len(leaked(out.exit.Error, body)) > 0 {
			t.Errorf("%s: %s", body, out.exit.Error)
		}
	}
}
