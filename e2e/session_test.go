//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/client"
)

// TestSecondCommandReadsFileOfFirst is the main job: create, run, run again, delete.
func TestSecondCommandReadsFileOfFirst(t *testing.T) {
	s := create(t, "base")
	first := runIn(t, s, client.SessionCreate{Argv: argv("python3", "-c", "print(6*7); open('/tmp/answer','w').write('42')")})
	first.want(t, 0, "42\n", "")
	second := runIn(t, s, client.SessionCreate{Shell: ptr("cat /tmp/answer; echo oops >&2; exit 3")})
	second.want(t, 3, "42", "oops\n")
}

func TestExitsAreExact(t *testing.T) {
	s := create(t, "mini")
	for _, c := range []struct {
		name   string
		in     client.SessionCreate
		code   int
		signal string
	}{
		{"zero", client.SessionCreate{Argv: argv("true")}, 0, ""},
		{"code", client.SessionCreate{Shell: ptr("exit 255")}, 255, ""},
		{"term", client.SessionCreate{Shell: ptr("kill -TERM $$")}, 0, "SIGTERM"},
		{"kill", client.SessionCreate{Shell: ptr("kill -KILL $$")}, 0, "SIGKILL"},
		{"missing", client.SessionCreate{Argv: argv("/no/such/program")}, 127, ""},
		{"not executable", client.SessionCreate{Argv: argv("/etc/passwd")}, 126, ""},
		{"orphans", client.SessionCreate{Shell: ptr("(sleep 0.2; exit 9) & (exit 8) & exit 7")}, 7, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := runIn(t, s, c.in)
			if got.exit.Code != c.code || got.exit.Signal != c.signal {
				t.Errorf("exit %+v, want code %d signal %q", got.exit, c.code, c.signal)
			}
		})
	}
	zombies := runIn(t, s, client.SessionCreate{Shell: ptr("sleep 0.4; grep -l '^State:.*zombie' /proc/[0-9]*/status 2>/dev/null | wc -l")})
	zombies.want(t, 0, "0\n", "")
}

func TestStdinOneMiB(t *testing.T) {
	s := create(t, "mini")
	in := bytes.Repeat([]byte("0123456789abcde\n"), 1<<16)
	got := runIn(t, s, client.SessionCreate{Argv: argv("sha256sum"), Stdin: &in})
	got.want(t, 0, fmt.Sprintf("%x  -\n", sha256.Sum256(in)), "")
}

func TestStdinIsClosedWhenAbsent(t *testing.T) {
	s := create(t, "mini")
	runIn(t, s, client.SessionCreate{Argv: argv("cat")}).want(t, 0, "", "")
}

func TestEnvironmentUserAndDirectory(t *testing.T) {
	s := create(t, "base")
	env := map[string]string{"COLOUR": "blue; echo $HOME"}
	show := client.SessionCreate{Shell: ptr(`id -un; pwd; echo "$COLOUR"; echo "$HOME"`), Env: &env}
	runIn(t, s, show).want(t, 0, "user\n/home/user\nblue; echo $HOME\n/home/user\n", "")
	show.User, show.Cwd = ptr("root"), ptr("/var")
	runIn(t, s, show).want(t, 0, "root\n/var\nblue; echo $HOME\n/root\n", "")
	runIn(t, s, client.SessionCreate{Shell: ptr("sudo id -u; id -u")}).want(t, 0, "0\n1000\n", "")
	if got := runIn(t, s, client.SessionCreate{Argv: argv("true"), User: ptr("nobody-here")}); got.exit.Error == "" {
		t.Errorf("an unknown user: exit %+v, want an error", got.exit)
	}
}

// TestOutputIsExact sends binary data on both streams; nothing may be added, lost or mixed up.
func TestOutputIsExact(t *testing.T) {
	s := create(t, "mini")
	got := runIn(t, s, client.SessionCreate{Shell: ptr(`i=0; while [ $i -lt 3000 ]; do echo "out $i"; echo "err $i" >&2; i=$((i+1)); done; printf '\000\377\r\n'`)})
	var out, errs strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&out, "out %d\n", i)
		fmt.Fprintf(&errs, "err %d\n", i)
	}
	got.want(t, 0, out.String()+"\x00\xff\r\n", errs.String())
}

// TestEndsAreKnownAfterTheStop has a viewer read how sessions ended, without a grant for the data plane: at once, when the sandbox has stopped, and of one that
// the stop ended.
func TestEndsAreKnownAfterTheStop(t *testing.T) {
	s := create(t, "mini")
	role := client.Role("viewer")
	key, err := platform.client.CreateKey(t.Context(), client.KeyCreate{Name: "viewer", Role: &role})
	if err != nil {
		t.Fatal(err)
	}
	viewer, err := client.New(platform.url, key.Secret)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for name, in := range map[string]client.SessionCreate{
		"code": {Shell: ptr("echo hello; exit 3")}, "signal": {Shell: ptr("kill -KILL $$")}, "timeout": {Shell: ptr("sleep 600"), TimeoutSeconds: ptr(1)},
	} {
		open := session(t, s, in)
		ids[name] = open.Session.Id
		follow(t, open, func(client.Event) {})
	}
	running := session(t, s, client.SessionCreate{Shell: ptr("echo up; exec sleep 600")})
	listen(t, running.Attachment.Url, running.Attachment.Token, "", func(e sse) bool { return e.name != "stdout" })
	ids["stop"] = running.Session.Id
	said := func(name string) string {
		t.Helper()
		x, err := viewer.GetSession(t.Context(), s.Id, ids[name])
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(x.State, " ", value(x.Code), " ", value(x.Signal), " ", value(x.TimedOut), " ", value(x.Stopped), " ", value(x.Lost), " ", value(x.OutputBytes))
	}
	ends := map[string]string{"code": "ended 3  false false false 6", "signal": "ended 0 SIGKILL false false false 0", "timeout": "ended 0 SIGTERM true false false 0", "stop": "started 0  false false false 0"}
	check := func() {
		t.Helper()
		for name, want := range ends {
			got, deadline := said(name), time.Now().Add(callDeadline)
			for ; got != want && time.Now().Before(deadline); got = said(name) {
				eventually(t, callDeadline, "a change", func() bool { return said(name) != got || time.Now().After(deadline) })
			}
			if got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	check()
	verb(t, s.Id, "stop")
	ends["stop"] = "ended 0 SIGTERM false true false 3"
	check()
	n := 0
	for x, err := range viewer.ListSessions(t.Context(), s.Id) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; x.State != "ended" || x.EndedAt == nil {
			t.Errorf("listed is %+v", x)
		}
	}
	if n != len(ids) {
		t.Errorf("%d sessions are listed", n)
	}
}

// value is what an optional field has, or nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
