package cli

import (
	"bytes"
	"os/exec"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// begun is the program that a play has begun; testscript's own background programs hide their exit codes and take few signals.
// What it prints is the play's when it has ended.
type begun struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

type begunKey struct{}

// endsWithin is how long a program may take to end: less than what it waits for a platform that hangs.
const endsWithin = passTimeout - 2*time.Second

func begin(ts *testscript.TestScript, args []string) {
	b := ts.Value(begunKey{}).(*begun)
	*b = begun{Cmd: exec.Command(args[0], args[1:]...)}
	cmd := b.Cmd
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	cmd.Path, cmd.Dir, cmd.Stdout, cmd.Stderr = path, ts.MkAbs("."), &b.stdout, &b.stderr
	for _, name := range []string{"PATH", "HOME", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	ts.Defer(func() { cmd.Process.Kill() })
}

func ended(ts *testscript.TestScript, want string) {
	b := ts.Value(begunKey{}).(*begun)
	cmd := b.Cmd
	late := time.AfterFunc(endsWithin, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Wait() // its error is the exit code
	ts.Stdout().Write(b.stdout.Bytes())
	ts.Stderr().Write(b.stderr.Bytes())
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != want {
		ts.Fatalf("exit code %s, want %s", got, want)
	}
}
