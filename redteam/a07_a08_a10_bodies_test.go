//go:build e2e

package redteam

import (
	"fmt"
	"strings"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
)

// TestA07SizesThatLie sends bodies that aren't what their headers say, and bodies without an end. Each is refused, or read as far as it's
// bounded; the platform goes on.
func TestA07SizesThatLie(t *testing.T) {
	box, _ := boxes(t)
	type attack struct{ headers, body string }
	attacks := map[string]attack{
		"longer than it says":          {"Content-Length: 2\r\n", `{"name":"x"}GET /healthz HTTP/1.1`},
		"negative":                     {"Content-Length: -1\r\n", `{}`},
		"with a sign":                  {"Content-Length: +2\r\n", `{}`},
		"in hexadecimal":               {"Content-Length: 0x2\r\n", `{}`},
		"beyond a number":              {"Content-Length: 99999999999999999999\r\n", `{}`},
		"huge":                         {"Content-Length: 9223372036854775807\r\n", `{}`},
		"two lengths":                  {"Content-Length: 2\r\nContent-Length: 12\r\n", `{"name":"x"}`},
		"a length and chunks":          {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", "c\r\n{\"name\":\"x\"}\r\n0\r\n\r\n"},
		"chunks twice":                 {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"},
		"an unknown coding":            {"Transfer-Encoding: gzip, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"},
		"a chunk's size that is none":  {"Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"},
		"a chunk beyond a number":      {"Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"},
		"a chunk without its end":      {"Transfer-Encoding: chunked\r\n", "2\r\n{}xx0\r\n\r\n"},
		"chunks without an end":        {"Transfer-Encoding: chunked\r\n", strings.Repeat("1000\r\n"+strings.Repeat(" ", 4096)+"\r\n", 2000)},
		"a coding with a space before": {"Transfer-Encoding : chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"},
		"a million parts":              {"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 6000000\r\n", strings.Repeat("--b\r\n\r\n", 857_142)},
		"packed":                       {"Content-Encoding: gzip\r\nContent-Length: 2\r\n", "\x1f\x8b"},
	}
	targets := map[string]struct{ base, line, bearer string }{
		"a token":   {platform.api, "POST /v1/sandboxes/" + box.id + "/tokens", platform.owner},
		"a session": {platform.edge, "POST /v1/sandboxes/" + box.id + "/sessions", box.token},
		"a rename":  {platform.edge, "POST /v1/sandboxes/" + box.id + "/files/rename", box.token},
	}
	allowed := map[string]bool{"longer than it says": true, "a length and chunks": true} // what is read is whole, and the connection isn't used again
	for where, to := range targets {
		for name, a := range attacks {
			status, all := raw(t, to.base, to.line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+to.bearer+"\r\n"+a.headers+"\r\n"+a.body)
			if ok := status >= 400 && status < 500 || status == 501 || allowed[name] && status == 201; !ok {
				t.Errorf("%s, %s: %d %s", where, name, status, clip(all))
			}
			if strings.Count(all, "HTTP/1.1 ") > 1 {
				t.Errorf("%s, %s: two answers to one request: %s", where, name, clip(all))
			}
		}
	}
	for _, q := range []struct{ to, bearer string }{{platform.api + "/v1/sandboxes", platform.owner}, {box.path("/files/rename"), box.token}, {box.path("/sessions"), box.token}} {
		base, path := q.to[:len(platform.api)], q.to[len(platform.api):]
		status, all := raw(t, base, "POST "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+q.bearer+"\r\nContent-Length: 5242880\r\n\r\n"+strings.Repeat(" ", 5<<20))
		if status != 413 {
			t.Errorf("5 MiB to %s: %d %s", q.to, status, clip(all))
		}
	}
	for _, base := range []string{platform.api, platform.edge} {
		status, all := raw(t, base, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
		if status != 431 && status != 0 {
			t.Errorf("a header of 1 MiB to %s: %d %s", base, status, clip(all))
		}
		ask(t, "GET", base+"/healthz", "", "").want(t, 200)
	}
}

// TestA07FileShorterThanItSays breaks off a write: what was there stays.
func TestA07FileShorterThanItSays(t *testing.T) {
	box, _ := boxes(t)
	ask(t, "PUT", box.file("/tmp/a07", ""), box.token, "before").want(t, 201)
	raw(t, platform.edge, "PUT /v1/sandboxes/"+box.id+"/files/content?path=/tmp/a07 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+box.token+
		"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nafter\r\nzz\r\n")
	if got := ask(t, "GET", box.file("/tmp/a07", ""), box.token, "").want(t, 200).body; got != "before" {
		t.Errorf("the file is %q", got)
	}
	if left := box.root(t, "ls -A /tmp | grep -v '^a[01]' | grep -c a07 || true"); left != "0\n" {
		t.Errorf("left beside it: %s", left)
	}
}

// TestA08RangesAndOffsets asks for parts that there aren't, and for a thousand at once.
func TestA08RangesAndOffsets(t *testing.T) {
	box, _ := boxes(t)
	const content = "0123456789"
	ask(t, "PUT", box.file("/tmp/a08", ""), box.token, content).want(t, 201)
	many := "bytes=" + strings.TrimSuffix(strings.Repeat("0-9,", 1000), ",")
	for _, x := range []struct{ span, want string }{
		{"bytes=2-4", "206 234"}, {"bytes=-3", "206 789"}, {"bytes=9-99999999999999999999", "206 9"},
		{"bytes=10-", "416"}, {"bytes=99999999999999999999-", "416"}, {"bytes=18446744073709551615-18446744073709551616", "416"}, {"bytes=-0", "416"},
		{"bytes=4-2", "200 " + content}, {"bytes=--3", "200 " + content}, {"bytes=-1-2", "200 " + content}, {"bytes=a-b", "200 " + content}, {"lines=1-2", "200 " + content},
		{"bytes=0-1,2-3", "200 " + content}, {many[:255], "200 " + content}, {many, "400"},
	} {
		a := ask(t, "GET", box.file("/tmp/a08", ""), box.token, "", "Range", x.span)
		if a.status >= 400 {
			a.body = ""
		}
		if got := strings.TrimSpace(fmt.Sprint(a.status, " ", a.body)); got != x.want {
			t.Errorf("%s: %s, want %s", clip(x.span), clip(got), x.want)
		}
	}
	session := box.session(t, `{"argv":["cat"],"open_stdin":true}`)
	stdin := platform.edge + "/v1/sessions/" + session.Session.Id + "/stdin?offset="
	for e := range follow(t, session.Attachment.Url, session.Attachment.Token) {
		if e.name == "started" {
			break
		}
	}
	for _, offset := range []string{"-1", "1e3", "0x1", "18446744073709551616", "9223372036854775808", "9223372036854775807", "5", " 1", ""} {
		if a := ask(t, "POST", stdin+escape(offset), session.Attachment.Token, "x"); a.status < 400 || a.status > 499 {
			t.Errorf("stdin at %q: %d %s", offset, a.status, a.body)
		}
	}
	for _, query := range []string{"limit=-1", "limit=0", "limit=101", "limit=99999999999999999999", "limit=1.5", "limit=NaN", "limit=1&limit=2", "cursor=%00", "cursor=" + strings.Repeat("a", 300)} {
		for _, list := range []string{"/v1/sandboxes", "/v1/templates", "/v1/events", "/v1/keys", "/v1/sandboxes/" + box.id + "/sessions", "/v1/templates/mini/logs"} {
			ask(t, "GET", platform.api+list+"?"+query, platform.owner, "").want(t, 400)
		}
	}
	for _, wait := range []string{"-1s", "301s", "9999999m", "1h", "1e3s", "", "s", "0.5s"} {
		ask(t, "POST", platform.api+"/v1/sandboxes?wait="+escape(wait), platform.owner, `{"template":"a08-missing"}`).want(t, 400)
	}
	for _, depth := range []string{"-1", "0", "65", "99999999999", "x"} {
		ask(t, "GET", box.path("/files/list?path=/&depth="+depth), box.token, "").want(t, 400)
	}
}

// TestA10ContentTypes sends JSON as something else and something else as JSON; nothing is made of it.
func TestA10ContentTypes(t *testing.T) {
	box, _ := boxes(t)
	count := func() int {
		return len(decode[gen.SandboxTokenPage](t, ask(t, "GET", platform.api+"/v1/sandboxes/"+box.id+"/tokens", platform.owner, "").want(t, 200)).Items)
	}
	before := count()
	good := `{"name":"a10"}`
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b", "application/xml", "application/json-patch+json", "text/json", "nonsense", "application/json, text/plain"} {
		for _, q := range []struct{ to, bearer string }{
			{platform.api + "/v1/sandboxes/" + box.id + "/tokens", platform.owner}, {box.path("/sessions"), box.token}, {box.path("/files/mkdir"), box.token},
		} {
			if a := ask(t, "POST", q.to, q.bearer, good, "Content-Type", kind, "Origin", "https://evil.example"); a.status != 415 {
				t.Errorf("%s as %s: %d %s", q.to, kind, a.status, a.body)
			}
		}
	}
	for name, body := range map[string]string{
		"__proto__": `{"name":"a10","__proto__":{"role":"owner"}}`, "constructor": `{"constructor":{"prototype":{}}}`, "twice": `{"name":"a","name":"b"}`, "another case": `{"NAME":"a10"}`,
		"null": `{"name":null}`, "an array": `[{"name":"a10"}]`, "a string": `"name"`, "a form": `name=a10`, "two": `{} {}`, "NaN": `{"expires_in_seconds":NaN}`, "a comment": `{/**/}`,
		"a float": `{"expires_in_seconds":1.5}`, "a number in a string": `{"expires_in_seconds":"60"}`, "half a character": `{"name":"\ud800"}`, "not UTF-8": "{\"name\":\"\xff\"}",
		"UTF-16": "\xff\xfe{\x00}\x00", "a mark": "\xef\xbb\xbf{}", "deep": strings.Repeat(`{"name":`, 5000) + "1" + strings.Repeat("}", 5000), "deep arrays": `{"name":` + strings.Repeat("[", 60_000),
		"cut off": `{"name":"a1`, "a huge number": `{"expires_in_seconds":1e999}`, "role": `{"name":"a10","role":"owner"}`, "sandbox": `{"sandbox":"sbx_x"}`,
	} {
		if a := ask(t, "POST", platform.api+"/v1/sandboxes/"+box.id+"/tokens", platform.owner, body, "Content-Type", "application/json"); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, clip(a.body))
		}
		if a := ask(t, "POST", box.path("/files/rename"), box.token, body, "Content-Type", "application/json"); a.status != 400 {
			t.Errorf("rename with %s: %d %s", name, a.status, clip(a.body))
		}
	}
	if after := count(); after != before {
		t.Errorf("%d tokens were made", after-before)
	}
	allowed := ask(t, "POST", platform.api+"/v1/sandboxes/"+box.id+"/tokens", platform.owner, good, "Content-Type", "application/json; charset=utf-8").want(t, 201)
	for _, name := range []string{"Access-Control-Allow-Origin", "Set-Cookie"} {
		if allowed.header.Get(name) != "" {
			t.Errorf("the API answers with %s: %s", name, allowed.header.Get(name))
		}
	}
}
