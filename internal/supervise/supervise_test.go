package supervise

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/proc"
)

const nobody = 65534

// stage is an instance's directories with one program in it, which tells its pid on a pipe each time it starts.
type stage struct {
	t       *testing.T
	dirs    Dirs
	program Program
	starts  *bufio.Reader
}

func setup(t *testing.T, script string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{t: t, dirs: Dirs{Run: filepath.Join(dir, "run"), Log: filepath.Join(dir, "log")}}
	for _, d := range []string{s.dirs.Run, s.dirs.Log} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	fifo := filepath.Join(dir, "starts")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755) // the program isn't root
	}
	os.Chmod(fifo, 0o666)
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	f.SetReadDeadline(time.Now().Add(20 * time.Second))
	s.starts = bufio.NewReader(f)
	s.program = Program{Name: "role", Path: "/bin/sh", Args: []string{"-c", "echo $$ > " + fifo + "; " + script}, Env: []string{"PATH=/usr/bin:/bin"},
		UID: nobody, GID: nobody, Groups: []int{4}, Stop: unix.SIGTERM, Grace: 5 * time.Second}
	t.Cleanup(func() { Stop(context.Background(), s.dirs, []Program{s.program}) })
	return s
}

// started waits for the next start and returns its pid.
func (s *stage) started() int {
	s.t.Helper()
	line, err := s.starts.ReadString('\n')
	if err != nil {
		s.t.Fatalf("wait for a start: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// supervise runs a supervisor until the returned function is called, which returns Run's error.
func (s *stage) supervise() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { defer close(done); done <- Run(ctx, s.dirs, []Program{s.program}) }()
	stop = func() error { cancel(); return <-done }
	s.t.Cleanup(func() { stop() })
	return stop
}

func (s *stage) kill(pid int) {
	s.t.Helper()
	id, err := proc.Read(pid)
	if err != nil {
		s.t.Fatal(err)
	}
	fd, err := proc.Open(id)
	if err != nil {
		s.t.Fatal(err)
	}
	defer fd.Close()
	if err := proc.Kill(s.t.Context(), fd, 5*time.Second); err != nil {
		s.t.Fatal(err)
	}
}

func TestProgramRunsAsItsUserInASessionOfItsOwn(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	stop := s.supervise()
	pid := s.started()
	uid, err := proc.UID(pid)
	if err != nil || uid != nobody {
		t.Errorf("uid %d, %v; want %d", uid, err, nobody)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d, %v; want %d", sid, err, pid)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil || !strings.Contains(string(status), "Groups:\t4 \n") {
		t.Errorf("supplementary groups aren't 4: %v\n%s", err, status)
	}
	if cwd, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "cwd")); err != nil || cwd != "/" {
		t.Errorf("working directory %q, %v; want /", cwd, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestDeadProgramIsStartedAgain(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	stop := s.supervise()
	first := s.started()
	s.kill(first)
	second := s.started()
	if err := stop(); err != nil { // the pid file is written when this returns
		t.Fatal(err)
	}
	rec, err := Read(s.dirs.Run, s.program.Name)
	if err != nil {
		t.Fatal(err)
	}
	if rec.PID != second || rec.Restarts != 1 || !strings.HasSuffix(rec.LastExit, "signal: killed") {
		t.Errorf("record %+v, want pid %d, 1 restart after signal: killed", rec, second)
	}
}

func TestProgramThatCannotStartIsTriedAgainAndHoldsNobodyUp(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	broken := s.program
	broken.Name, broken.Path = "broken", "/nonexistent"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Run(ctx, s.dirs, []Program{broken, s.program}) }()
	s.started()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSupervisorsDeathHarmsNothingAndTheNextOneAdopts(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	stop := s.supervise()
	first := s.started()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before, err := Read(s.dirs.Run, s.program.Name)
	if err != nil || !before.Alive() {
		t.Fatalf("the role died with its supervisor: %+v, %v", before, err)
	}
	stop = s.supervise()
	s.kill(first) // the next start proves that the second supervisor watched a process that isn't its child
	if second := s.started(); second == first {
		t.Errorf("pid %d twice", first)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestPidOfAnotherProcessIsNotAdopted(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	self, err := record(os.Getpid(), nobody, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := write(s.dirs.Run, s.program.Name, self); err != nil { // right pid and time, wrong uid
		t.Fatal(err)
	}
	stop := s.supervise()
	if pid := s.started(); pid == os.Getpid() {
		t.Error("the test itself was adopted")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestSecondSupervisorIsRefused(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	stop := s.supervise()
	s.started()
	if err := Run(t.Context(), s.dirs, nil); !errors.Is(err, ErrRunning) {
		t.Errorf("got %v, want ErrRunning", err)
	}
	if !Running(s.dirs.Run) {
		t.Error("Running says no while one runs")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if Running(s.dirs.Run) {
		t.Error("Running says yes after its end")
	}
}

func TestStopEndsWhatSupervisorsLeft(t *testing.T) {
	for name, script := range map[string]string{"willing": "exec sleep 1000", "stubborn": "trap '' TERM; exec sleep 1000"} {
		t.Run(name, func(t *testing.T) {
			s := setup(t, script)
			s.program.Grace = 200 * time.Millisecond
			stop := s.supervise()
			pid := s.started()
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := Stop(t.Context(), s.dirs, []Program{s.program}); err != nil {
				t.Fatal(err)
			}
			if _, err := proc.Read(pid); !errors.Is(err, proc.ErrGone) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
			if _, err := Read(s.dirs.Run, s.program.Name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the pid file is still there: %v", err)
			}
		})
	}
}

// TestStopAfterAReboot: pid files, and the directory that they were in, are gone with what ran.
func TestStopAfterAReboot(t *testing.T) {
	s := setup(t, "exec sleep 1000")
	s.dirs.Run = filepath.Join(s.dirs.Run, "gone")
	if err := Stop(t.Context(), s.dirs, []Program{s.program}); err != nil {
		t.Error(err)
	}
}

// TestNoteCountsRestarts notes two processes of a role, as systemd has it done, and refuses one of somebody else.
func TestNoteCountsRestarts(t *testing.T) {
	dir := t.TempDir()
	own, parent := os.Getpid(), os.Getppid()
	for _, step := range []struct{ pid, restarts int }{{own, 0}, {own, 0}, {parent, 1}} {
		if err := Note(dir, "role", os.Geteuid(), step.pid); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(dir, "role"); err != nil || got.PID != step.pid || got.Restarts != step.restarts || !got.Alive() {
			t.Errorf("%+v, %v; want process %d after %d restarts", got, err, step.pid, step.restarts)
		}
	}
	if err := Note(dir, "role", nobody, own); err == nil {
		t.Error("a process of another user was noted")
	}
	if got, err := Read(dir, "role"); err != nil || got.PID != parent {
		t.Errorf("what was noted is %+v, %v", got, err)
	}
}
