//go:build e2e

package redteam

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// roomOfVMM is what a VMM may take beside its guest's memory, in bytes.
const roomOfVMM = 256 << 20

// wantFlat holds that a sandbox takes no more of the host than its size.
func (s sandbox) wantFlat(t *testing.T) {
	t.Helper()
	now := s.state(t)
	if now.State != "running" {
		return
	}
	if got, most := s.metrics(t).MemoryBytes, int64(now.MemoryMb)<<20+roomOfVMM; got > most {
		t.Errorf("the machine takes %d bytes of the host, want at most %d", got, most)
	}
}

// TestR01ForkBomb: the guest runs out of processes, its agent doesn't, and nobody else feels it.
func TestR01ForkBomb(t *testing.T) {
	box := target(t)
	unharmed(t, func() {
		box.begin(t, `bomb() { bomb | bomb & }; bomb; sleep 600`)
		_, other := boxes(t)
		for range 3 {
			answers(t, other)
		}
		box.agentAnswers(t)
		box.wantFlat(t)
	})
	box.contained(t)
}

// TestR01TenThousandProcesses starts as many as it's let. Those that can't be started are refused by the guest's kernel, and when they end a command
// runs again, without anybody's help.
func TestR01TenThousandProcesses(t *testing.T) {
	box := target(t)
	unharmed(t, func() {
		said := box.begin(t, `n=0; while [ $n -lt 10000 ]; do sleep 1000 & n=$((n+1)); done; echo started $n; wait`)
		for end := time.Now().Add(attackTime); !strings.Contains(said(), "started") && !strings.Contains(said(), "fork") && time.Now().Before(end); {
			_, other := boxes(t)
			answers(t, other)
		}
		t.Logf("the guest says %q", clip(said()))
		box.agentAnswers(t)
		box.wantFlat(t)
	})
	box.contained(t)
	for _, live := range ask(t, "GET", box.path("/live-sessions"), box.token, "").want(t, 200).items(t) {
		ask(t, "POST", platform.edge+"/v1/sessions/"+live+"/signal", box.token, `{"signal":"SIGKILL"}`).want(t, 200, 204, 404, 409)
	}
	eventually(t, callDeadline, "a command runs again", func() bool {
		made := box.session(t, `{"argv":["echo","again"]}`)
		for e := range follow(t, made.Attachment.Url, made.Attachment.Token) {
			if e.name == "stdout" {
				return e.bytes(t) == "again\n"
			}
		}
		return false
	})
}

// TestR02MemoryHog takes all memory of a guest, locked and as files: its agent survives, or its loss is said.
func TestR02MemoryHog(t *testing.T) {
	box := armed(t)
	unharmed(t, func() {
		for _, script := range []string{`/tmp/attack hog 100000`, `mkdir -p /mnt/m && mount -t tmpfs -o size=100% tmpfs /mnt/m && dd if=/dev/zero of=/mnt/m/fill bs=1M`} {
			box.contained(t)
			if box.state(t).State != "running" {
				break
			}
			said := box.begin(t, script)
			eventually(t, callDeadline, "it has ended", func() bool { return strings.Contains(said(), "[") })
			t.Logf("%s: %s", script, clip(said()))
			if box.state(t).State == "running" { // files in memory can't be taken from a guest: its kernel may have given up
				box.wantFlat(t)
			}
		}
	})
	box.contained(t)
}

// TestR04DiskFill fills a guest's disk, its inodes, and the volume below it by writing over: that's an error in the guest and a typed one of the
// file API, the node's room stays, and room that is made is there at once.
func TestR04DiskFill(t *testing.T) {
	box := target(t)
	unharmed(t, func() {
		free := volumeFree(t)
		if out := box.run(t, `{"shell":"dd if=/dev/zero of=/root/fill bs=64k; sync","user":"root"}`); !strings.Contains(out.stderr, "No space left") {
			t.Errorf("dd says %q", out.stderr)
		}
		a := ask(t, "PUT", box.file("/root/more", "root"), box.token, strings.Repeat("x", 1<<20), "Content-Type", "application/octet-stream")
		if a.status < 400 || a.status == 500 || a.code() == "" {
			t.Errorf("a file on a full disk: %d %s", a.status, a.body)
		}
		t.Logf("a file on a full disk: %d %s", a.status, a.code())
		box.agentAnswers(t)
		box.root(t, `rm /root/fill; mkdir /root/inodes; cd /root/inodes; n=0; while touch $(seq $n $((n+199))); do n=$((n+200)); done 2>/dev/null; n=$(ls | wc -l); cd; rm -r /root/inodes; [ $n -gt 1000 ]`)
		box.root(t, `dd if=/dev/zero of=/root/sparse bs=1 count=1 seek=16M 2>/dev/null; for n in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=/root/sparse bs=4k count=4k conv=notrunc 2>/dev/null; sync; done; rm /root/sparse`)
		ask(t, "PUT", box.file("/root/more", "root"), box.token, strings.Repeat("x", 1<<20), "Content-Type", "application/octet-stream").want(t, 200, 201)
		const disk = 64 << 20                                  // of the mini template
		if took := free - volumeFree(t); took > 2*disk+8<<20 { // what is written over stays until its whole extent is
			t.Errorf("a disk of %d bytes took %d of the volume", disk, took)
		}
	})
	answers(t, box)
}

// volumeFree is how many bytes are free on the node's volume.
func volumeFree(t *testing.T) int64 {
	t.Helper()
	dir, err := os.Open(platform.instance.Volume())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		t.Fatal(err)
	}
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// TestR05Descriptors takes all files and sockets that a guest has. The agent needs some, and has them.
func TestR05Descriptors(t *testing.T) {
	box := armed(t)
	unharmed(t, func() {
		said := box.begin(t, `for n in 1 2 3 4; do /tmp/attack descriptors 30 & done; wait`)
		eventually(t, 3*callDeadline, "the guest has no more", func() bool { return strings.Contains(said(), "full:") || strings.Contains(said(), "[exit") })
		box.agentAnswers(t)
		box.wantFlat(t)
	})
	box.contained(t)
}

// TestR12GiantOutput says as much as it can to nobody: the oldest goes, and nothing grows with it. A later reader is told what is missing.
func TestR12GiantOutput(t *testing.T) {
	box := target(t)
	unharmed(t, func() {
		made := box.session(t, `{"shell":"exec yes 0123456789012345678901234567890123456789012345678901234567890"}`)
		for e := range follow(t, made.Attachment.Url, made.Attachment.Token) {
			if e.name == "stdout" {
				break // and nobody is attached
			}
		}
		before := resident(t, instance.Host)
		var last event
		eventually(t, 3*callDeadline, "more was said than is kept", func() bool {
			for e := range follow(t, made.Attachment.Url, made.Attachment.Token, "Last-Event-ID", "0") {
				last = e
				break
			}
			return last.name == "gap"
		})
		if grown := resident(t, instance.Host) - before; grown > 32<<20 {
			t.Errorf("the host's process has grown by %d bytes", grown)
		}
		box.agentAnswers(t)
		ask(t, "POST", platform.edge+"/v1/sessions/"+made.Session.Id+"/signal", box.token, `{"signal":"SIGKILL"}`).want(t, 200, 204)
		got := int64(0)
		for e := range follow(t, made.Attachment.Url, made.Attachment.Token) {
			if e.name == "stdout" {
				got += int64(len(e.bytes(t)))
			}
		}
		if got > 16<<20 {
			t.Errorf("%d bytes were kept", got)
		}
	})
	answers(t, box)
}

// TestR15BurningCPU has many processes and timers want all of the processor: the machine gets its share, and the others theirs.
func TestR15BurningCPU(t *testing.T) {
	box := armed(t)
	unharmed(t, func() {
		said := box.begin(t, `for n in 1 2 3 4 5 6 7 8; do /tmp/attack timers 15 & done; wait; echo over`)
		from, began := box.metrics(t).CpuSeconds, time.Now()
		box.agentAnswers(t)
		_, other := boxes(t)
		answers(t, other)
		eventually(t, callDeadline, "it has ended", func() bool { return strings.Contains(said(), "over") })
		used, passed := box.metrics(t).CpuSeconds-from, time.Since(began).Seconds()
		const most = 2 // CPUs: one that the guest has, and what emulation and I/O take beside it
		t.Logf("%.1f s of CPU in %.1f s", used, passed)
		if used > most*passed+1 {
			t.Errorf("a machine of one CPU has used %.1f s of it in %.1f s", used, passed)
		}
	})
	answers(t, box)
}

// items are the ids of a list of sessions.
func (r reply) items(t *testing.T) (ids []string) {
	t.Helper()
	for _, s := range decode[struct{ Items []struct{ ID string } }](t, r).Items {
		ids = append(ids, s.ID)
	}
	return ids
}
