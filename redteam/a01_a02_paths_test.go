//go:build e2e

package redteam

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// honey is a file of the host that no guest has, and what's in it.
type honey struct{ path, content string }

func newHoney(t *testing.T) honey {
	t.Helper()
	h := honey{filepath.Join(t.TempDir(), "honey"), "honeytoken-of-the-host"}
	if err := os.WriteFile(h.path, []byte(h.content), 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

// untouched checks the host's file, and that an answer hasn't got it.
func (h honey) untouched(t *testing.T, who string, a reply) {
	t.Helper()
	if strings.Contains(a.body, h.content) {
		t.Errorf("%s reads the host's file: %s", who, clip(a.body))
	}
	if b, err := os.ReadFile(h.path); err != nil || string(b) != h.content {
		t.Errorf("%s changed the host's file: %q, %v", who, b, err)
	}
}

// up is more directories than there are.
const up = "../../../../../../../../../../../../../../../.."

// TestA01Traversal spells a file of the host's in every way, as root of the guest: what is reached is the guest's file system or nothing.
func TestA01Traversal(t *testing.T) {
	box, _ := boxes(t)
	h := newHoney(t)
	spellings := map[string]string{
		"absolute": h.path, "climbing": up + h.path, "absolute and climbing": "/" + up + h.path, "from a real directory": "/etc/" + up + h.path,
		"slashes": "//" + strings.ReplaceAll(h.path, "/", "///"), "dots": strings.ReplaceAll(h.path, "/", "/./"),
		"backslashes": strings.ReplaceAll(up+h.path, "/", `\`), "encoded twice": strings.ReplaceAll(up, ".", "%2e") + h.path,
		"encoded slashes": strings.ReplaceAll(up+h.path, "/", "%2f"), "overlong dots": strings.ReplaceAll(up, ".", "\xc0\xae") + h.path,
		"full-width": strings.ReplaceAll(up, ".", "．") + h.path, "with NUL": h.path + "\x00.txt", "with a newline": h.path + "\n",
		"by init's root": "/proc/1/root" + h.path, "by the caller's root": "/proc/self/root" + h.path, "by init's directory": "/proc/1/cwd/" + up + h.path,
		"by a file URL": "file://" + h.path, "slash at the end": h.path + "/", "dot at the end": h.path + "/.", "a path of 5000": strings.Repeat("/a", 2500) + h.path,
		"a part of 300": "/" + strings.Repeat("a", 300), "empty": "", "a dot": ".", "two dots": "..", "home": "~root" + h.path,
	}
	for name, path := range spellings {
		for _, q := range []struct{ method, rest, body string }{
			{"GET", "/files/content?user=root&path=", ""}, {"GET", "/files/stat?user=root&path=", ""}, {"GET", "/files/list?user=root&path=", ""},
			{"GET", "/files/archive?user=root&path=", ""}, {"PATCH", "/files?user=root&path=", `{"mode":"0777"}`}, {"DELETE", "/files?user=root&recursive=true&path=", ""},
		} {
			if q.method == "DELETE" && (name == "a dot" || name == "two dots") {
				continue // the guest's own home and root, which we still need
			}
			a := ask(t, q.method, box.path(q.rest+escape(path)), box.token, q.body)
			who := q.method + " " + name
			h.untouched(t, who, a)
			wantRefused(t, who+" "+clip(path), a, 200, 204, 400, 403, 404, 409, 413)
			if strings.ContainsAny(path, "\x00\xc0") || len(path) > 4096 || path == "" {
				wantRefused(t, who, a, 400)
			}
		}
	}
	for name, path := range spellings { // writing makes files in the guest, which are removed with their names
		a := ask(t, "PUT", box.file(path, "root"), box.token, "from the guest")
		h.untouched(t, "write "+name, a)
		wantRefused(t, "write "+name, a, 200, 201, 400, 403, 404, 409)
		body, err := json.Marshal(map[string]string{"from": "/etc/hostname", "to": path})
		if err != nil {
			t.Fatal(err)
		}
		h.untouched(t, "rename "+name, ask(t, "POST", box.path("/files/rename"), box.token, string(body)))
	}
	if got := ask(t, "GET", box.file(up+"/etc/passwd", "root"), box.token, "").want(t, 200).body; !strings.Contains(got, "root:x:0:0") {
		t.Errorf("the guest's own passwd is %q", clip(got))
	}
}

// TestA01PathsInURLs climbs in the URL instead: no spelling of it reaches another operation, or a file that the server has.
func TestA01PathsInURLs(t *testing.T) {
	box, _ := boxes(t)
	for _, base := range []string{platform.api, platform.edge} {
		for _, path := range []string{
			"/v1/sandboxes/../../etc/passwd", "/v1/sandboxes/%2e%2e/%2e%2e/etc/passwd", "/v1/sandboxes/..%2f..%2fetc%2fpasswd", "/v1//sandboxes", "/v1/./sandboxes",
			"/v1/sandboxes/" + box.id + "/files/../files/stat?path=/", "/v1/sandboxes/" + box.id + "%00/files/stat?path=/", "/v1/sandboxes/" + box.id + "/",
			"/docs/../healthz", "//healthz", "/.git/config", "/debug/pprof/", "/metrics", "/v1/sandboxes/" + box.id + ";x=y/files/stat?path=/", "*", "http://169.254.169.254/latest/meta-data",
		} {
			for _, bearer := range []string{platform.owner, box.token} {
				status, all := raw(t, base, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+bearer+"\r\n\r\n")
				if status < 400 || status > 499 {
					t.Errorf("%s%s: %d %s", base, path, status, clip(all))
				}
			}
		}
	}
}

// TestA02Links follows links that the guest's root has laid: to /, in a chain, in a loop, to nothing, into /proc.
func TestA02Links(t *testing.T) {
	box, _ := boxes(t)
	h := newHoney(t)
	box.root(t, `mkdir -p /tmp/a02 && cd /tmp/a02 && ln -sfn / root && ln -sfn nowhere dangling && ln -sfn loop2 loop1 && ln -sfn loop1 loop2 && ln -sfn `+up+` up &&
		ln -sfn /proc/1/root initroot && ln -sfn /proc/self/root selfroot && ln -sfn /proc/1/cwd cwd && echo end > end && ln -sfn end c0 &&
		i=0; while [ $i -lt 45 ]; do ln -sfn c$i c$((i+1)); i=$((i+1)); done; mkdir -p real && ln -sfn real in && echo allowed > real/file`)
	read := func(path string) reply { return ask(t, "GET", box.file("/tmp/a02/"+path, "root"), box.token, "") }
	if got := read("in/file").want(t, 200).body; got != "allowed\n" {
		t.Errorf("through a link inside: %q", got)
	}
	if got := read("root/etc/passwd").want(t, 200).body; !strings.Contains(got, "root:x:0:0") {
		t.Errorf("the link to / leads to %q", clip(got))
	}
	for _, path := range []string{"root", "up", "initroot", "selfroot", "cwd", "up/root", "root/tmp/a02/up"} {
		for _, q := range []string{"GET /files/content", "GET /files/stat", "GET /files/list", "GET /files/archive", "PUT /files/content"} {
			method, rest, _ := strings.Cut(q, " ")
			to := box.path(rest + "?user=root&path=" + escape("/tmp/a02/"+path+h.path))
			a := ask(t, method, to, box.token, map[bool]string{true: "from the guest"}[method == "PUT"])
			h.untouched(t, q+" through "+path, a)
			if method == "PUT" {
				wantRefused(t, q+" through "+path, a, 200, 201, 400, 403, 404)
				box.root(t, "rm -rf '"+filepath.Dir(filepath.Dir(h.path))+"'")
			} else {
				wantRefused(t, q+" through "+path, a, 403, 404)
			}
		}
	}
	for path, statuses := range map[string][]int{"loop1": {400, 404, 409, 422}, "loop1/x": {400, 404, 409, 422}, "dangling": {404}, "dangling/x": {404}, "c45": {200, 409}} {
		wantRefused(t, path, read(path), statuses...)
	}
}
