//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/instance"
)

const (
	streamPart   = 8 << 20  // bytes of the file that the command prints again and again
	slowPart     = 8 << 20  // bytes that are read slowly, so that the way fills up to the command
	slowPiece    = 64 << 10 // bytes of each slow read
	slowPause    = 50 * time.Millisecond
	memoryGrowth = 64 << 20 // bytes by which a role may grow meanwhile: no more than its buffers and what the collector hasn't seen to yet
)

// TestSlowReaderGetsAll: a reader that is slower than the command loses nothing, and nobody on the way keeps it in memory.
func TestSlowReaderGetsAll(t *testing.T) { streamTo(t, 64<<20, 4*time.Minute) }

// streamTo prints bytes in a sandbox through the command line to a reader that is slow at first, and compares all of them and the roles' memory.
func streamTo(t *testing.T, size int, within time.Duration) {
	box := create(t, "mini")
	part := make([]byte, streamPart)
	rand.Read(part)
	plane, err := platform.client.Plane(t.Context(), box.Id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.WriteFile(t.Context(), "/tmp/part", strings.NewReader(string(part))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, platform.binary, "exec", "--instance", platform.instance.Name, box.Id, "sh", "-c",
		fmt.Sprintf("i=0; while [ $i -lt %d ]; do cat /tmp/part; i=$((i+1)); done", size/streamPart))
	cmd.Stderr = testWriter{t}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := memory(t)
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	got, want := sha256.New(), sha256.New()
	slow := io.LimitReader(out, slowPart)
	for tick := time.NewTicker(slowPause); ; <-tick.C {
		if n, err := io.CopyN(got, slow, slowPiece); n < slowPiece || err != nil {
			tick.Stop()
			break
		}
	}
	grown := map[instance.Role]int64{}
	for n := int64(1); n > 0; {
		if n, err = io.CopyN(got, out, streamPart); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		for r, now := range memory(t) {
			grown[r] = max(grown[r], now-before[r])
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the command line: %v", err)
	}
	for range size / streamPart {
		want.Write(part)
	}
	if string(got.Sum(nil)) != string(want.Sum(nil)) {
		t.Errorf("%d bytes arrived otherwise than they were printed", size)
	}
	for r, n := range grown {
		if n > memoryGrowth {
			t.Errorf("%s grew by %d MiB, limit %d", r, n>>20, memoryGrowth>>20)
		}
	}
	t.Logf("%d MiB in %s; the roles grew by %v bytes", size>>20, time.Since(began).Round(time.Second), grown)
}

// memory is what each role has in memory, in bytes.
func memory(t *testing.T) map[instance.Role]int64 {
	t.Helper()
	out := map[instance.Role]int64{}
	for r, pid := range roles(t) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatalf("role %s: %v", r, err)
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if kib, ok := strings.CutPrefix(s.Text(), "VmRSS:"); ok {
				n, err := strconv.ParseInt(strings.Fields(kib)[0], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				out[r] = n << 10
			}
		}
		f.Close()
	}
	return out
}

// TestStdinFromCommandLine: as much goes the other way, exact.
func TestStdinFromCommandLine(t *testing.T) {
	box := create(t, "mini")
	in := make([]byte, 20<<20)
	rand.Read(in)
	ctx, cancel := context.WithTimeout(t.Context(), 2*callDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, platform.binary, "exec", "-i", "--instance", platform.instance.Name, box.Id, "sha256sum")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(in)), testWriter{t}
	began := time.Now()
	out, err := cmd.Output()
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(in)); err != nil || string(out) != want {
		t.Errorf("%q, want %q: %v", out, want, err)
	}
	t.Logf("%d MiB in %s", len(in)>>20, time.Since(began).Round(100*time.Millisecond))
}

// TestInterruptsReachTheCommand: the first does what the command makes of it, the second kills it; a sandbox of run is gone either way.
func TestInterruptsReachTheCommand(t *testing.T) {
	before := sandboxes(t)
	for _, c := range []struct {
		name, script string
		signals      int
		code         int
	}{
		{"handled", `trap 'exit 3' INT; echo ready; while :; do sleep 0.1; done`, 1, 3},
		{"by default", `echo ready; sleep 1000`, 1, 130},
		{"ignored", `trap 'echo told' INT; echo ready; while :; do sleep 0.1; done`, 2, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), platform.binary, "run", "--rm", "--instance", platform.instance.Name, "mini", "sh", "-c", c.script)
			cmd.Stderr = testWriter{t}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for sent := 0; sent < c.signals && lines.Scan(); sent++ { // ready, and told
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
			io.Copy(io.Discard, out)
			cmd.Wait() // its error is the exit code
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
		})
	}
	if after := sandboxes(t); !maps.Equal(after, before) {
		t.Errorf("sandboxes %v, before %v", after, before)
	}
}
