//go:build e2e

package redteam

import (
	"encoding/json"
	"strings"
	"testing"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// TestA20Commands makes sessions of what isn't a command, and of what a shell would take for more than one.
func TestA20Commands(t *testing.T) {
	box, _ := boxes(t)
	quoted, err := json.Marshal(map[string]any{"argv": []string{"echo", "-n", "$(id)", "`id`", "; id", "&& id", "| id", "> /tmp/a20", "$HOME", "*", "\n", "'", `"`, "--", "%s"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := box.run(t, string(quoted)).stdout; got != "$(id) `id` ; id && id | id > /tmp/a20 $HOME * \n ' \" -- %s" {
		t.Errorf("the arguments came as %q", got)
	}
	if got := box.run(t, `{"shell":"echo $((40+2))"}`).stdout; got != "42\n" {
		t.Errorf("the shell that was asked for says %q", got)
	}
	if got := box.run(t, `{"argv":["sh","-c","echo \"$LD_X,$A\""],"env":{"A":"$(id);\n","LD_X":"x"}}`).stdout; got != "x,$(id);\n\n" {
		t.Errorf("the environment came as %q", got)
	}
	for name, body := range map[string]string{
		"NUL in argv": `{"argv":["echo","a\u0000b"]}`, "NUL in the program": `{"argv":["ec\u0000ho"]}`, "NUL in shell": `{"shell":"a\u0000b"}`, "an empty program": `{"argv":[""]}`, "no argv": `{"argv":[]}`, "neither": `{}`,
		"both": `{"argv":["id"],"shell":"id"}`, "= in a name": `{"argv":["id"],"env":{"A=B":"c"}}`, "an empty name": `{"argv":["id"],"env":{"":"c"}}`, "NUL in a name": `{"argv":["id"],"env":{"A\u0000":"c"}}`,
		"NUL in a value": `{"argv":["id"],"env":{"A":"b\u0000c"}}`, "a blank in a name": `{"argv":["id"],"env":{"A B":"c"}}`, "a function": `{"argv":["id"],"env":{"BASH_FUNC_x%%":"() { id; }"}}`,
		"a relative directory": `{"argv":["id"],"cwd":"tmp"}`, "a climbing directory": `{"argv":["id"],"cwd":"../tmp"}`, "NUL in the directory": `{"argv":["id"],"cwd":"/tmp\u0000/x"}`, "a long directory": `{"argv":["id"],"cwd":"/` + strings.Repeat("a", 4096) + `"}`,
		"a user with a newline": `{"argv":["id"],"user":"root\n"}`, "a user with a colon": `{"argv":["id"],"user":"x:0:0"}`, "a negative user": `{"argv":["id"],"user":"-1"}`, "a long user": `{"argv":["id"],"user":"` + strings.Repeat("u", 65) + `"}`,
		"2 MiB of arguments": `{"argv":["echo","` + strings.Repeat("a", 2<<20) + `"]}`, "5000 arguments": `{"argv":["echo"` + strings.Repeat(`,"a"`, 5000) + `]}`, "200 KiB of environment": `{"argv":["id"],"env":{"A":"` + strings.Repeat("a", 200<<10) + `"}}`,
		"a pid": `{"argv":["id"],"pid":1}`, "a session": `{"argv":["id"],"session":"ses_x"}`, "root": `{"argv":["id"],"privileged":true}`, "a huge terminal": `{"argv":["id"],"tty":{"rows":100000,"cols":1}}`, "no time": `{"argv":["id"],"timeout_seconds":0}`,
	} {
		for _, q := range []struct{ to, bearer string }{{platform.api + "/v1/sandboxes/" + box.id + "/sessions", platform.owner}, {box.path("/sessions"), box.token}} {
			if a := ask(t, "POST", q.to, q.bearer, body); a.status != 400 && a.status != 413 {
				t.Errorf("%s: %d %s", name, a.status, clip(a.body))
			}
		}
	}
	for name, body := range map[string]string{"a user that there isn't": `{"argv":["id"],"user":"nobody-knows"}`, "a directory that there isn't": `{"argv":["id"],"cwd":"/nowhere"}`, "a program that there isn't": `{"argv":["nothing"]}`} {
		if out := box.run(t, body); out.exit.Error == "" || len(leaked(out.exit.Error, body)) > 0 {
			t.Errorf("%s: exit %+v", name, out.exit)
		}
	}
}

// TestA20Users runs as another user: a name is looked up in the guest, and a number is what it says.
func TestA20Users(t *testing.T) {
	box, _ := boxes(t)
	for user, want := range map[string]string{"": "1000", "root": "0", "user": "1000", "65534": "65534"} {
		if got := box.run(t, `{"argv":["id","-u"],"user":"`+user+`"}`).stdout; user != "" && got != want+"\n" {
			t.Errorf("user %q is %q", user, got)
		}
	}
	for _, user := range []string{"4294967295", "4294967296", "00", "0x0", " root", "root ", "ROOT"} {
		a := ask(t, "GET", box.path("/files/stat?path=/root&user="+escape(user)), box.token, "")
		if a.status == 200 && user != "00" {
			t.Errorf("the files' user %q: %s", user, a.body)
		}
	}
	if a := ask(t, "GET", box.file("/etc/shadow", "user"), box.token, ""); a.status == 200 {
		t.Errorf("an ordinary user reads /etc/shadow: %s", a.body)
	}
}

// TestA21Others signals and attaches to what is somebody else's: another sandbox's session, a session that never was, a process by its number.
func TestA21Others(t *testing.T) {
	box, other := boxes(t)
	theirs := other.session(t, `{"argv":["sh","-c","trap '' USR1; echo ready; read x; echo $x"],"open_stdin":true}`)
	events := make(chan event, 16)
	go func() {
		defer close(events)
		for e := range follow(t, theirs.Attachment.Url, theirs.Attachment.Token) {
			events <- e
		}
	}()
	for e := range events {
		if e.name == "stdout" {
			break
		}
	}
	mine := box.session(t, `{"argv":["true"]}`)
	missing := space.NewID(space.PrefixSession)
	for _, bearer := range []string{box.token, mine.Attachment.Token} {
		for _, q := range []struct{ method, rest, body string }{{"POST", "/signal", `{"signal":"SIGKILL"}`}, {"GET", "/attach", ""}, {"POST", "/stdin?offset=0&close=true", "x\n"}, {"POST", "/resize", `{"rows":1,"cols":1}`}} {
			at := func(id string) reply {
				return ask(t, q.method, platform.edge+"/v1/sessions/"+id+q.rest, bearer, q.body)
			}
			wantSame(t, q.method+" "+q.rest, at(theirs.Session.Id), at(missing))
			for _, id := range []string{"1", "0", "-1", "self", "ses_1", "init", theirs.Session.Id[:10], "%2e%2e"} {
				wantRefused(t, q.rest+" of "+id, at(id), 404)
			}
		}
	}
	for _, signal := range []string{"", "9", "KILL", "SIGNOTHING", "sigkill", "SIGKILL\n", "SIG9", "-9"} {
		body, _ := json.Marshal(map[string]string{"signal": signal})
		wantRefused(t, "signal "+signal, ask(t, "POST", platform.edge+"/v1/sessions/"+theirs.Session.Id+"/signal", other.token, string(body)), 400)
	}
	live := decode[gen.LiveSessions](t, ask(t, "GET", box.path("/live-sessions"), box.token, "").want(t, 200))
	for _, s := range live.Items {
		if s.Id == theirs.Session.Id || s.Pid != nil && *s.Pid == 1 {
			t.Errorf("the list shows %+v", s)
		}
	}
	ask(t, "POST", platform.edge+"/v1/sessions/"+theirs.Session.Id+"/stdin?offset=0&close=true", other.token, "whole\n").want(t, 200)
	said := ""
	for e := range events {
		if e.name == "stdout" {
			said += e.bytes(t)
		}
		if e.name == "exit" && !strings.Contains(e.data, `"code":0`) {
			t.Errorf("the other's session ends with %s", e.data)
		}
	}
	if said != "whole\n" {
		t.Errorf("the other's session says %q", said)
	}
}

// TestA22Resume comes back to streams with what wasn't theirs.
func TestA22Resume(t *testing.T) {
	box, other := boxes(t)
	long := box.session(t, `{"argv":["sh","-c","echo 0123456789"]}`)
	short := other.session(t, `{"argv":["true"]}`)
	end := map[string]string{}
	for _, s := range []gen.SessionCreated{long, short} {
		for e := range follow(t, s.Attachment.Url, s.Attachment.Token) {
			end[s.Session.Id] = e.id
		}
	}
	if end[long.Session.Id] != "11" {
		t.Fatalf("the log ends at %q", end[long.Session.Id])
	}
	got := ""
	for e := range follow(t, long.Attachment.Url, long.Attachment.Token, "Last-Event-ID", "11") {
		got += e.name
	}
	if got != "exit" {
		t.Errorf("at its own end it says %q", got)
	}
	for _, id := range []string{"-1", "+1", "1e1", "0x1", "abc", " ", "1 ", "1,2", "1\t", "９", "12", end[long.Session.Id] + "0", "9223372036854775807", "9223372036854775808", "18446744073709551615", "99999999999999999999", strings.Repeat("1", 5000)} {
		if a := ask(t, "GET", long.Attachment.Url, long.Attachment.Token, "", "Last-Event-ID", id); a.status != 400 && strings.TrimSpace(id) == id {
			t.Errorf("attach with %q: %d %s", clip(id), a.status, a.body)
		}
		ws := strings.TrimSuffix(long.Attachment.Url, "/attach") + "/ws?from=" + escape(id)
		wantRefused(t, "a WebSocket from "+clip(id), ask(t, "GET", ws, long.Attachment.Token, "", upgrade...), 400)
	}
	if a := ask(t, "GET", short.Attachment.Url, short.Attachment.Token, "", "Last-Event-ID", end[long.Session.Id]); a.status != 400 {
		t.Errorf("another session's position: %d %s", a.status, a.body)
	}
	if a := ask(t, "GET", long.Attachment.Url, long.Attachment.Token, "", "Last-Event-ID", "1", "Last-Event-ID", "2"); a.status != 400 {
		t.Errorf("two positions: %d %s", a.status, a.body)
	}
	for _, stream := range []string{"/v1/events", "/v1/templates/mini/logs"} {
		for _, id := range []string{"-1", "abc", "9223372036854775808", "1.5", "99999999999999999999", "9000000000000000000"} {
			if a := ask(t, "GET", platform.api+stream, platform.owner, "", "Accept", "text/event-stream", "Last-Event-ID", id); a.status != 400 {
				t.Errorf("%s after %s: %d %s", stream, id, a.status, clip(a.body))
			}
		}
	}
}
