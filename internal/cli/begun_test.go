package cli

import (
	"os/exec"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// begun is the program that a play has begun; testscript's own background programs hide their exit codes and take few signals.
type begun struct{ *exec.Cmd }

type begunKey struct{}

// endsWithin is how long a program may take to end: less than what it waits for a platform that hangs.
const endsWithin = passTimeout - 2*time.Second

func begin(ts *testscript.TestScript, args []string) {
	cmd := exec.Command(args[0], args[1:]...)
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd.Path, cmd.Dir, cmd.Stdout, cmd.Stderr = path, ts.MkAbs("."), ts.Stdout(), ts.Stderr()
	for _, name := range []string{"PATH", "HOME", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	ts.Defer(func() { cmd.Process.Kill() })
	ts.Value(begunKey{}).(*begun).Cmd = cmd
}

func ended(ts *testscript.TestScript, want string) {
	cmd := ts.Value(begunKey{}).(*begun).Cmd
	late := time.AfterFunc(endsWithin, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Wait() // its error is the exit code
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != want {
		ts.Fatalf("exit code %s, want %s", got, want)
	}
}
