package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"

	"github.com/space-platform/space/client"
)

// script is a command whose whole outcome is known before.
type script struct {
	argv           []string
	stdin          []byte
	stdout, stderr string
	code           int
}

// drawScript draws a command: most print a line, some a lot, some slowly, some what they read.
func drawScript(rng *rand.Rand) script {
	word, code := fmt.Sprintf("%016x", rng.Uint64()), rng.IntN(126)
	switch rng.IntN(10) {
	case 0: // some megabytes at most, beyond the buffers on the way and within the kept log
		n := 1 + rng.IntN(200_000)
		return shell(fmt.Sprintf("seq 1 %d; exit %d", n, code), numbers(n), "", code)
	case 1: // slowly, so that daemons die in the middle
		n := 1 + rng.IntN(20)
		return shell(fmt.Sprintf("for i in $(seq 1 %d); do echo $i; sleep 0.2; done; exit %d", n, code), numbers(n), "", code)
	case 2:
		in := make([]byte, rng.IntN(100_000))
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		s := shell(fmt.Sprintf("base64 -w 0; exit %d", code), base64.StdEncoding.EncodeToString(in), "", code)
		s.stdin = in
		return s
	case 3:
		return shell(fmt.Sprintf("echo %s >&2; sleep 0.05; echo %s; exit %d", word, word, code), word+"\n", word+"\n", code)
	default:
		return script{argv: []string{"/bin/echo", word}, stdout: word + "\n"}
	}
}

func shell(command, stdout, stderr string, code int) script {
	return script{argv: []string{"/bin/sh", "-c", command}, stdout: stdout, stderr: stderr, code: code}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i+1)
	}
	return b.String()
}

// check compares a session's events with what must come, and returns what is wrong; "" for nothing.
func (x script) check(events iter.Seq2[client.Event, error]) string {
	var out, err bytes.Buffer
	var exits []client.Exit
	started := 0
	for e, failure := range events {
		if failure != nil {
			return fmt.Sprintf("after %d and %d bytes: %v", out.Len(), err.Len(), failure)
		}
		switch e.Type {
		case client.EventStarted:
			started++
		case client.EventStdout:
			out.Write(e.Data)
		case client.EventStderr:
			err.Write(e.Data)
		case client.EventExit:
			exits = append(exits, e.Exit)
		default:
			return fmt.Sprintf("an event %s: %+v", e.Type, e)
		}
	}
	switch {
	case started != 1:
		return fmt.Sprintf("%d started events", started)
	case len(exits) != 1 || exits[0] != (client.Exit{Code: x.code}):
		return fmt.Sprintf("exits %+v, want one with code %d", exits, x.code)
	case out.String() != x.stdout:
		return "stdout: " + differ(out.String(), x.stdout)
	case err.String() != x.stderr:
		return "stderr: " + differ(err.String(), x.stderr)
	}
	return ""
}

// differ says where two texts begin to differ.
func differ(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Sprintf("%d bytes, want %d; they differ from byte %d: %.40q, want %.40q", len(got), len(want), at, got[at:], want[at:])
}
