package jail_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/proc"
)

// standIn does what a VMM's jailer does, but for the root directory: it's root, makes devices and files where it may, says so, and becomes
// another user.
const standIn = `
	echo "pid $$ uid $(id -u) groups $(id -G)"
	mkdir /jail/dev && mknod /jail/dev/null c 1 3 && chown %[1]d /jail/dev/null && : > /jail/dev/null && echo device
	cp /usr/bin/true /jail/true && /jail/true && echo executed
	( : > /x ) 2>/dev/null && echo wrote to the root
	cat /vm/place | wc -c
	exec setpriv --reuid %[1]d --regid %[1]d --clear-groups sh -c 'id -u; until grep -qs lent /vm/place; do sleep 0.01; done; echo found; exec sleep 600'
`

func TestAJailerStartsAsRootAndEndsUpAsTheUser(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	said := filepath.Join(t.TempDir(), "said")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := e.Starter.Start(t.Context(), vmm.Command{
		Path: "/usr/bin/sh", Args: []string{"-c", fmt.Sprintf(standIn, e.UID)}, Log: log, Jailer: "/jail", Places: []string{"/vm/place"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.PIDFD.Close()
	text := func() string { b, _ := os.ReadFile(said); return string(b) }
	want := fmt.Sprintf("pid 1 uid 0 groups 0\ndevice\nexecuted\n0\n%d\n", e.UID)
	await(t, func() bool { return text() == want }, func() string { return fmt.Sprintf("it says:\n%s\nwant:\n%s", text(), want) })
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		fmt.Sprintf(`Uid:\s+%[1]d\s+%[1]d\s+%[1]d\s+%[1]d`, e.UID), `CapEff:\s+0+`, `CapPrm:\s+0+`, `NoNewPrivs:\s+1`, `NSpid:\s+\d+\s+1`, `Groups:\s*`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).Match(status) {
			t.Errorf("its status has no line %q:\n%s", line, status)
		}
	}
	lendAndTakeBack(t, e, p, func() bool { return strings.HasSuffix(text(), "found\n") })
}

func lendAndTakeBack(t *testing.T, e vmm.Enclosure, p vmm.Process, found func() bool) {
	t.Helper()
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("lent"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := vmm.Handle{PID: p.PID, StartTime: p.StartTime, BootID: boot, UID: e.UID}
	if back, err := e.Starter.Lend(t.Context(), h, map[string]*os.File{"/vm/place": f, "/vm/none": f}); err == nil {
		back()
		t.Error("a file was lent to a place that there isn't")
	}
	inside := fmt.Sprintf("/proc/%d/root/vm/place", p.PID)
	if b, err := os.ReadFile(inside); err != nil || len(b) > 0 {
		t.Errorf("after half a loan the place has %q, %v", b, err)
	}
	back, err := e.Starter.Lend(t.Context(), h, map[string]*os.File{"/vm/place": f})
	if err != nil {
		t.Fatal(err)
	}
	await(t, found, func() string { return "the program doesn't find the file" })
	if err := back(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(inside); err != nil || len(b) > 0 {
		t.Errorf("what was taken back is there: %q, %v", b, err)
	}
	for range 2 { // by two lives of the daemon, each of which ended before it took the file back
		if _, err := e.Starter.Lend(t.Context(), h, map[string]*os.File{"/vm/place": f}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := e.Starter.TakeBack(t.Context(), h, []string{"/vm/place"}); err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(inside); err != nil || len(b) > 0 {
			t.Errorf("what an earlier life has lent is there: %q, %v", b, err)
		}
	}
	h.StartTime++
	if err := e.Starter.TakeBack(t.Context(), h, []string{"/vm/place"}); err != nil {
		t.Errorf("of a program that is gone: %v", err)
	}
	if _, err := e.Starter.Lend(t.Context(), h, map[string]*os.File{"/vm/place": f}); err == nil {
		t.Error("a file was lent to another process than the handle's")
	}
}

// await polls until ok, for a time that is enough on a busy machine.
func await(t *testing.T, ok func() bool, otherwise func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatal(otherwise())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
