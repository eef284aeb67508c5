//go:build e2e

package redteam

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestA04AgentStaysWhole has root of a guest lay hands on the agent's files: nothing of it changes, and the sandbox goes on.
func TestA04AgentStaysWhole(t *testing.T) {
	box, _ := boxes(t)
	before := box.root(t, `cat /proc/1/exe | sha256sum`)
	box.root(t, `mkdir -p /tmp/a04; cd /tmp/a04
		ln /proc/1/exe hard; ln -f "$(readlink /proc/1/exe)" hard2; echo x > /proc/1/exe; dd if=/dev/zero of=/proc/1/exe bs=1 count=1
		mount --bind /bin/busybox /proc/1/exe; mount -t tmpfs none /proc/1; kill -9 1; kill -STOP 1; echo 1000 > /proc/1/oom_score_adj
		echo 0 > /proc/1/mem; dd if=/dev/zero of=/proc/1/mem bs=1 count=1 seek=4194304; true`)
	if out := box.run(t, `{"argv":["echo","still here"]}`); out.stdout != "still here\n" {
		t.Fatalf("after that a session says %+v", out)
	}
	box.root(t, `umount -l /proc/1 2>/dev/null; umount -l /proc/1/exe 2>/dev/null; true`)
	if after := box.root(t, `cat /proc/1/exe | sha256sum`); after != before {
		t.Errorf("the agent was %s, is %s", before, after)
	}
	box.root(t, `mkdir -p /tmp/a04/m && echo under > /tmp/a04/m/f && mount -t tmpfs none /tmp/a04/m`)
	defer box.root(t, `umount /tmp/a04/m`)
	if a := ask(t, "PUT", box.file("/tmp/a04/m/f", "root"), box.token, "over"); a.status/100 != 2 {
		t.Errorf("a write below a mount of the guest's own: %d %s", a.status, a.body)
	}
	if got := box.root(t, `umount /tmp/a04/m && cat /tmp/a04/m/f && mount -t tmpfs none /tmp/a04/m`); got != "under\n" {
		t.Errorf("what is under the mount: %q", got)
	}
}

// TestA05SpecialFiles reads and writes what isn't a plain file: each is answered, with an error that has a code or with bounded bytes, and in
// time.
func TestA05SpecialFiles(t *testing.T) {
	box, _ := boxes(t)
	box.root(t, `mkdir -p /tmp/a05 && cd /tmp/a05 && rm -f pipe && mkfifo pipe && mknod -m 666 zero c 1 5 2>/dev/null; mknod -m 666 mem c 1 1; mknod -m 666 disk b 254 0; echo plain > plain`)
	growing := box.session(t, `{"user":"root","shell":"while echo xxxxxxxxxxxxxxxx >> /tmp/a05/growing; do :; done"}`)
	for e := range follow(t, growing.Attachment.Url, growing.Attachment.Token) {
		if e.name == "started" {
			break
		}
	}
	if got := ask(t, "GET", box.file("/tmp/a05/plain", "root"), box.token, "").want(t, 200).body; got != "plain\n" {
		t.Errorf("the plain file: %q", got)
	}
	for _, path := range []string{
		"/tmp/a05/pipe", "/tmp/a05/zero", "/tmp/a05/mem", "/tmp/a05/disk", "/dev/zero", "/dev/random", "/dev/tty", "/dev/console", "/dev/kmsg", "/proc/kcore", "/proc/kmsg",
		"/proc/self/root", "/proc/1/mem", "/proc/1/exe", "/proc/self/fd/0", "/proc/sysrq-trigger", "/sys/kernel/debug", "/dev/vport0p1", "/dev/vport1p1", "/dev/mem", "/tmp/a05/growing", "/",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT"} {
			if method == "PUT" && (strings.HasPrefix(path, "/proc") || path == "/tmp/a05/growing") {
				continue // a write to /proc is the guest's own affair
			}
			began := time.Now()
			status, n := bounded5(t, method, box.file(path, "root"), box.token)
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s %s took %s", method, path, took)
			}
			if status >= 500 && status != http.StatusBadGateway || n > 64<<20 {
				t.Errorf("%s %s: %d with %d bytes", method, path, status, n)
			}
			if status == 200 && method == "PUT" && strings.HasPrefix(path, "/dev") {
				t.Errorf("%s %s replaced a device", method, path)
			}
		}
	}
	if a := ask(t, "POST", platform.edge+"/v1/sessions/"+growing.Session.Id+"/signal", growing.Attachment.Token, `{"signal":"SIGKILL"}`); a.status != 204 {
		t.Errorf("stop the growing file: %d %s", a.status, a.body)
	}
	box.root(t, `rm -rf /tmp/a05`)
	if out := box.run(t, `{"argv":["echo","still here"]}`); out.stdout != "still here\n" {
		t.Errorf("after that a session says %+v", out)
	}
}

// bounded5 does a request about a file and counts the bytes of the answer, up to more than it may have.
func bounded5(t *testing.T, method, to, bearer string) (status, n int) {
	t.Helper()
	body := ""
	if method == http.MethodPut {
		body = "written"
	}
	req, err := http.NewRequestWithContext(bounded(t), method, to, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := direct.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, to, err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 65<<20)) // a file that couldn't be read to its end cuts the connection
	checkError(t, reply{resp.StatusCode, resp.Header, string(b[:min(len(b), maxAnswer)])}, to, body, "")
	return resp.StatusCode, len(b)
}
