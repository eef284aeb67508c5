package jail_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/instance/instancetest"
	"github.com/space-platform/space/internal/proc"
)

// own is an instance that only this test process has.
var own instance.Instance

func TestMain(m *testing.M) {
	i, release, err := instancetest.Hold()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	own = i
	code := m.Run()
	release()
	os.Exit(code)
}

func here() instance.Instance { return own }

func setup(t testing.TB) *jail.Jail {
	t.Helper()
	j, err := jail.New(here())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := j.Sweep(context.Background(), nil); err != nil {
			t.Error(err)
		}
		j.Close()
		os.RemoveAll(here().RunDir())
		os.Remove(filepath.Dir(here().RunDir())) // unless other instances run
	})
	return j
}

func spec(n int) jail.Spec {
	first, _ := here().VMUIDs()
	return jail.Spec{ID: fmt.Sprintf("exe_test%d", n), UID: first + n, Limits: cgroup.Limits{MemoryBytes: 256 << 20, CPUMillis: 1000, PIDs: 32}}
}

func enclose(t testing.TB, j *jail.Jail, s jail.Spec) vmm.Enclosure {
	t.Helper()
	e, err := j.Enclose(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sleep runs a program that does nothing.
func sleep(t testing.TB, e vmm.Enclosure) vmm.Process {
	t.Helper()
	p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/sleep", Args: []string{"600"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.PIDFD.Close() })
	return p
}

// output runs a shell script inside and returns what it prints.
func output(t *testing.T, e vmm.Enclosure, script string, bind map[string]vmm.Source, files ...*os.File) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/sh", Args: []string{"-c", script}, Bind: bind, Files: files, Log: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.PIDFD.Close()
	var out strings.Builder
	r.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return out.String()
}

func TestWhatAProgramSeesAndMayDo(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	dir := t.TempDir()
	for name, uid := range map[string]int{"readable": 0, "mine": e.UID} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	bind := map[string]vmm.Source{
		"/vm/in": {Path: filepath.Join(dir, "readable")}, "/vm/out": {Path: filepath.Join(dir, "mine"), Writable: true},
		"/vm/mine-ro": {Path: filepath.Join(dir, "mine")}, "/dev/full": {Path: "/dev/full", Writable: true},
	}
	out := output(t, e, `
		echo / $(echo /*) /dev $(echo /dev/*) /vm $(echo /vm/*)
		cat /vm/in; echo changed > /vm/out; cat /vm/out
		id -u; id -G; hostname; pwd; umask
		for f in /x /vm/x /dev/x /usr/x /tmp/x /vm/in /vm/mine-ro; do ( : > $f ) 2>/dev/null && echo wrote $f; done
		head -c 4 /dev/urandom | wc -c; ( : > /dev/full ) && echo opened full
		kill -0 1 2>/dev/null && echo signalled
		chmod 777 / 2>/dev/null && echo chmod
		echo done
	`, bind)
	want := fmt.Sprintf(`/ /dev /etc /lib /lib64 /usr /vm /dev /dev/full /dev/null /dev/urandom /dev/zero /vm /vm/in /vm/mine-ro /vm/out
readable
changed
%d
%d
machine
/
0022
4
opened full
done
`, e.UID, e.UID)
	if out := strings.ReplaceAll(out, "/lib32 ", ""); out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "mine")); err != nil || string(b) != "changed\n" {
		t.Errorf("the writable file holds %q, %v", b, err)
	}
}

func TestNoDescriptorLeaksAndTheGivenOnesArrive(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	inherited, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	if err := clearCloseOnExec(inherited); err != nil { // as if this process had got it from its parent
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := e.Starter.Start(t.Context(), vmm.Command{
		Path: "/usr/bin/sh", Args: []string{"-c", "exec >&3; echo up; kill -STOP $$"}, Files: []*os.File{w},
	})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.PIDFD.Close()
	if _, err := r.Read(make([]byte, 3)); err != nil { // the loader has closed its files by then
		t.Fatal(err)
	}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range links {
		to, _ := os.Readlink(l)
		kind, _, _ := strings.Cut(to, ":")
		got = append(got, filepath.Base(l)+" "+kind)
	}
	slices.Sort(got)
	if want := []string{"0 /dev/null", "1 pipe", "2 /dev/null", "3 pipe"}; !slices.Equal(got, want) {
		t.Errorf("descriptors %v, want %v", got, want)
	}
}

func TestPlantedLinksAreNotFollowed(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	dir := t.TempDir()
	link, linked := filepath.Join(dir, "link"), filepath.Join(dir, "dir")
	if err := errors.Join(os.Symlink("/etc/shadow", link), os.Symlink("/etc", linked)); err != nil {
		t.Fatal(err)
	}
	for _, bind := range []map[string]vmm.Source{
		{"/vm/x": {Path: link}},
		{"/vm/x": {Path: filepath.Join(linked, "shadow")}},
		{"/vm/x": {Path: "/etc"}},
		{"/vm/x": {Path: "/dev/null"}},
		{"/vm/../x": {Path: "/etc/passwd"}},
		{"/usr/x": {Path: "/etc/passwd"}},
		{"vm": {Path: "/etc/passwd"}},
		{"/": {Path: "/etc/passwd"}},
		{"/vm/x": {Path: "/nowhere"}},
		{"/vm/x": {Path: "/etc/../etc/passwd"}},
	} {
		p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/true", Bind: bind})
		if err == nil {
			p.PIDFD.Close()
			t.Errorf("%v was accepted", bind)
		}
	}
	if mounted, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounted), here().RunDir()) {
		t.Errorf("a failed start left a mount on the host, %v", err)
	}
}

func TestAProgramThatCannotBeExecutedLeavesNothing(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	if _, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/nothing"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Start = %v, want ErrNotExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Starter.Start(ctx, vmm.Command{Path: "/usr/bin/true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Start after the end of its context = %v", err)
	}
	left, err := j.Leftovers(map[string]int{e.ID: 0})
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTheEndIsSeenAndReaped(t *testing.T) {
	j := setup(t)
	e := enclose(t, j, spec(1))
	p := sleep(t, e)
	id, err := proc.Read(p.PID)
	if err != nil || id.StartTime != p.StartTime {
		t.Fatalf("the process is %+v, %v, want start time %d", id, err, p.StartTime)
	}
	if err := proc.Kill(t.Context(), p.PIDFD, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	j.Close() // returns when the reaper is done, or has been told to stop
	if id.Alive() {
		t.Error("alive after Kill")
	}
}

func TestRemoveEndsEverythingAndMayBeRepeated(t *testing.T) {
	j := setup(t)
	s := spec(1)
	e := enclose(t, j, s)
	p := sleep(t, e)
	if _, err := j.Enclose(t.Context(), s); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Enclose = %v, want ErrExist", err)
	}
	if ended, err := proc.Ended(p.PIDFD); err != nil || ended {
		t.Fatalf("the refused Enclose ended the program: %v, %v", ended, err)
	}
	for range 2 {
		if err := j.Remove(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := proc.Ended(p.PIDFD); err != nil || !ended {
		t.Errorf("the program runs on: %v", err)
	}
	left, err := j.Leftovers(nil)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	enclose(t, j, s)
}

// TestAnotherLifeFindsWhatIsThere stands for a daemon's restart: a second Jail, without any record.
func TestAnotherLifeFindsWhatIsThere(t *testing.T) {
	j := setup(t)
	known, stray := spec(1), spec(2)
	sleep(t, enclose(t, j, known))
	p := sleep(t, enclose(t, j, stray))
	next, err := jail.New(here())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	records := map[string]int{known.ID: known.UID}
	left, err := next.Leftovers(records)
	want := []jail.Leftover{
		{Kind: jail.Process, ID: fmt.Sprint(p.PID), UID: stray.UID}, {Kind: jail.Group, ID: stray.ID},
		{Kind: jail.Namespace, ID: stray.ID}, {Kind: jail.Directory, ID: stray.ID},
	}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("leftovers %v, %v, want %v", left, err, want)
	}
	if _, err := next.Sweep(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	if left, err := next.Leftovers(records); err != nil || len(left) > 0 {
		t.Errorf("after Sweep: %v, %v", left, err)
	}
	found := next.Find(known)
	if got := output(t, found, "echo again", nil); got != "again\n" {
		t.Errorf("the enclosure that was found again ran a program with output %q", got)
	}
}

func TestManyAtOnceDoNotDisturbEachOther(t *testing.T) {
	j := setup(t)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			s := spec(n)
			e, err := j.Enclose(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			p, err := e.Starter.Start(t.Context(), vmm.Command{Path: "/usr/bin/sleep", Args: []string{"600"}})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.PIDFD.Close()
			if uid, err := proc.UID(p.PID); err != nil || uid != s.UID {
				t.Errorf("machine %d runs as %d, %v, want %d", n, uid, err, s.UID)
			}
			if err := j.Remove(t.Context(), s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left, err := j.Leftovers(nil); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if wd, err := os.Readlink("/proc/self/root"); err != nil || wd != "/" {
		t.Errorf("this process's own root is %s, %v", wd, err)
	}
}

func TestSpecsAreChecked(t *testing.T) {
	j := setup(t)
	good := spec(1)
	for _, s := range []jail.Spec{{ID: "", UID: good.UID}, {ID: "../x", UID: good.UID}, {ID: "EXE", UID: good.UID}, {ID: good.ID, UID: 0}, {ID: good.ID, UID: 1000}} {
		if _, err := j.Enclose(t.Context(), s); err == nil {
			t.Errorf("%+v was accepted", s)
		}
		if err := j.Remove(t.Context(), s); err == nil {
			t.Errorf("removal of %+v was accepted", s)
		}
	}
}

func BenchmarkEnclosure(b *testing.B) {
	j := setup(b)
	s := spec(1)
	var make, start, remove time.Duration
	for b.Loop() {
		t0 := time.Now()
		e := enclose(b, j, s)
		t1 := time.Now()
		p, err := e.Starter.Start(b.Context(), vmm.Command{Path: "/usr/bin/sleep", Args: []string{"600"}})
		if err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		if err := j.Remove(b.Context(), s); err != nil {
			b.Fatal(err)
		}
		p.PIDFD.Close()
		make, start, remove = make+t1.Sub(t0), start+t2.Sub(t1), remove+time.Since(t2)
	}
	n := float64(b.N) * float64(time.Millisecond)
	b.ReportMetric(float64(make)/n, "ms-enclose")
	b.ReportMetric(float64(start)/n, "ms-start")
	b.ReportMetric(float64(remove)/n, "ms-remove")
}
