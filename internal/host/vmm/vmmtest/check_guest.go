package vmmtest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	guestv1 "github.com/space-platform/space/api/gen/guest/v1"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	sessionv1 "github.com/space-platform/space/api/gen/session/v1"
	"github.com/space-platform/space/api/link"
)

// checkLarger cold-starts a machine that has more than its template: two processors and a disk with more room.
func checkLarger(t *testing.T, s *suite) {
	const moreRoom = 512 << 20
	larger := *s
	larger.Shape.VCPUs = 2
	larger.Disk = clone(t, s.Disk, s.place(t), "disk", 0)
	if err := os.Truncate(larger.Disk, moreRoom); err != nil {
		t.Fatal(err)
	}
	g := larger.boot(t)
	g.greet(true)
	if out := g.sh("nproc"); out != "2" {
		t.Errorf("it has %s processors, want 2", out)
	}
	kib, err := strconv.Atoi(g.sh("df -k / | tail -n 1 | awk '{print $2}'"))
	if err != nil || kib < moreRoom>>10*9/10 {
		t.Errorf("its file system has %d KiB (%v), its disk %d", kib, err, moreRoom>>10)
	}
	base := g.save(s.place(t))
	if err := g.Kill(s.within(t)); err != nil {
		t.Fatal(err)
	}
	drawn := map[string]bool{}
	for range 2 {
		c := larger.load(t, base)
		for line := range strings.Lines(c.sh("for cpu in 1 2; do taskset $cpu od -An -N16 -tx1 /dev/urandom; done")) {
			if drawn[line] {
				t.Errorf("two clones, or two processors of one, drew %q", line)
			}
			drawn[line] = true
		}
		checkTime(t, c, base.saved)
	}
}

// checkGuestsKernel has the guest do what depends on its kernel: files with a user's rights, and terminals.
func checkGuestsKernel(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	mode := uint32(0o751)
	for _, a := range []*sandboxv1.Action{
		{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "d/f", Mode: proto.Uint32(0o640)}}},
		{Action: &sandboxv1.Action_Change{Change: &sandboxv1.Change{Path: "d", Mode: &mode, Recursive: true}}},
	} {
		if e := g.files(a, "content"); e.GetOwner() != "user" {
			t.Errorf("%v", e)
		}
	}
	if out := g.sh("stat -c '%U %a %s' /home/user/d/f"); out != "user 751 7" {
		t.Errorf("the file is %q", out)
	}
	if out := g.sh("stat -c %a /etc/passwd"); out != "644" {
		t.Errorf("the password file is %q", out)
	}
	if err := g.try(&sandboxv1.Action{Action: &sandboxv1.Action_Write{Write: &sandboxv1.Write{Path: "/etc/passwd"}}}, "x", nil); err == nil {
		t.Error("a user has written the password file")
	}
	out, exit, err := g.run(s.within(t), &sessionv1.Spec{
		Argv: []string{"sh", "-c", "tty; stty size; id -un"}, User: "user", Tty: &sessionv1.Terminal{Rows: 10, Cols: 20},
	})
	if err != nil || exit.GetCode() != 0 || out != "/dev/pts/0\r\n10 20\r\nuser\r\n" {
		t.Errorf("in a terminal: %q, %v, %v", out, exit, err)
	}
	// A container of the user's own, with a proc that shows its processes only.
	if out := g.as("user", "unshare -r -p -f --mount-proc sh -c 'echo $$ $(ls -d /proc/[0-9]* | wc -l)'"); !strings.HasPrefix(out, "1 ") {
		t.Errorf("in a user's container it has %q", out)
	}
}

// files makes a call as user that must succeed, and returns its entry.
func (g *guest) files(a *sandboxv1.Action, upload string) (e *sandboxv1.Entry) {
	g.t.Helper()
	if err := g.try(a, upload, func(m *sandboxv1.CallResponse) { e = m.GetEntry() }); err != nil {
		g.t.Fatal(err)
	}
	return e
}

// try makes a call as user.
func (g *guest) try(a *sandboxv1.Action, upload string, answer func(*sandboxv1.CallResponse)) error {
	ctx := g.s.within(g.t)
	a.User = "user"
	stream, err := g.open(ctx, &guestv1.Call{Call: &guestv1.Call_Files{Files: a}})
	if err != nil {
		return err
	}
	defer stream.Reset(link.CodeCancelled)
	b, err := proto.Marshal(&guestv1.ToFiles{Data: []byte(upload), End: true})
	if err != nil {
		return err
	}
	if a.GetWrite() != nil {
		if err := stream.Send(ctx, b); err != nil {
			return err
		}
	}
	for {
		b, err := stream.Recv(ctx)
		if err != nil {
			return err
		}
		m := new(guestv1.FromFiles)
		if err := proto.Unmarshal(b, m); err != nil {
			return err
		}
		switch {
		case m.GetDone() != nil:
			return nil
		case m.GetError() != nil:
			return fmt.Errorf("the guest: %v", m.GetError())
		case answer != nil:
			answer(m.GetResponse())
		}
	}
}

// open opens a stream with a call.
func (g *guest) open(ctx context.Context, c *guestv1.Call) (*link.Stream, error) {
	b, err := proto.Marshal(c)
	if err != nil {
		return nil, err
	}
	return g.link.Open(ctx, b)
}
