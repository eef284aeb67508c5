//go:build e2e

package redteam

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestE10Names has a guest call itself, its processes and its files what would turn a terminal or a log around.
func TestE10Names(t *testing.T) {
	box := target(t)
	const ugly = "\x1b[31mred\x1b]0;title\x07\r\nlevel=ERROR forged=1\x00"
	name := strings.Trim(strings.ReplaceAll(ugly, "/", ""), "\x00")
	quoted, err := json.Marshal(map[string]any{"argv": []string{"sleep", "60"}, "env": map[string]string{"UGLY": name}, "user": "root"})
	if err != nil {
		t.Fatal(err)
	}
	sleeping := box.session(t, string(quoted))
	for e := range follow(t, sleeping.Attachment.Url, sleeping.Attachment.Token) {
		if e.name == "started" {
			break
		}
	}
	shown, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", `hostname "$1"; printf '%s' "$1" > /proc/$$/comm; mkdir -p "/tmp/$1"; : > "/tmp/file$1"; exec sleep 60`, "ugly", name}, "user": "root"})
	if err != nil {
		t.Fatal(err)
	}
	made := box.session(t, string(shown))
	for e := range follow(t, made.Attachment.Url, made.Attachment.Token) {
		if e.name == "started" {
			break
		}
	}
	var files string
	eventually(t, callDeadline, "the file is listed", func() bool {
		files = ask(t, "GET", box.path("/files/list?path=/tmp&user=root"), box.token, "").want(t, 200).body
		return strings.Contains(files, `\u001b[31mred`)
	})
	live := ask(t, "GET", box.path("/live-sessions"), box.token, "").want(t, 200).body
	for what, text := range map[string]string{"the list of files": files, "the list of sessions": live} {
		if i := strings.IndexFunc(text, isControl); i >= 0 {
			t.Errorf("%s has a raw %q", what, text[max(0, i-20):min(len(text), i+20)])
		}
	}
	binary, err := filepath.Abs("../bin/space")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"ps", box.id}, {"ps", box.id, "-o", "json"}, {"sandbox", "get", box.id}} {
		out, err := exec.Command(binary, append(args, "--instance", platform.instance.Name)...).CombinedOutput()
		if err != nil {
			t.Errorf("space %v: %v: %s", args, err, out)
		}
		if i := strings.IndexFunc(string(out), isControl); i >= 0 {
			t.Errorf("space %v shows a raw %q", args, out[max(0, i-20):min(len(out), i+20)])
		}
	}
	for _, path := range glob(t, filepath.Join(platform.instance.LogDir(), "*.log")) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.IndexFunc(string(b), isControl); i >= 0 || strings.Contains(string(b), "\nlevel=ERROR forged") {
			t.Errorf("%s has what a guest has made up", path)
		}
	}
	long := strings.Repeat("x", 4<<20)
	a := ask(t, "GET", box.path("/files/stat?user=root&path=/"+long[:8000]), box.token, "")
	if a.status != 400 && a.status != 414 && a.status != 431 {
		t.Errorf("a name of 8000 bytes: %d %s", a.status, clip(a.body))
	}
	body, to := `{"argv":["`+long+`"]}`, box.path("/sessions")
	status, said := raw(t, to, "POST "+strings.TrimPrefix(to, platform.edge)+" HTTP/1.1\r\nHost: edge\r\nConnection: close\r\nAuthorization: Bearer "+box.token+
		"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body) // refused before all of it has come
	if status != 413 && status != 400 {
		t.Errorf("a program's name of 4 MiB: %d %s", status, clip(said))
	}
}

// isControl tells whether a character moves a terminal's cursor or more. Lines and their columns are ours.
func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }
