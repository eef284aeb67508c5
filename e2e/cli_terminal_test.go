//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// console is what a terminal has shown.
type console struct {
	mu    sync.Mutex
	shown bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.Write(p)
}

// has tells whether a text was shown; then what was shown begins anew.
func (c *console) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !bytes.Contains(c.shown.Bytes(), []byte(text)) {
		return false
	}
	c.shown.Reset()
	return true
}

// TestTerminalOfTheCommandLine types into exec -it: the window's sizes and Ctrl-C go to what runs there.
func TestTerminalOfTheCommandLine(t *testing.T) {
	box := create(t, "mini")
	ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, platform.binary, "exec", "-it", "--instance", platform.instance.Name, box.Id, "sh")
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	seen := &console{}
	go io.Copy(seen, screen) // ends with the terminal
	enter := func(keys, shows string) {
		t.Helper()
		if _, err := io.WriteString(screen, keys); err != nil {
			t.Fatal(err)
		}
		eventually(t, callDeadline, "the terminal shows "+shows, func() bool { return seen.has(shows) })
	}
	enter("stty size\n", "24 80")
	if err := pty.Setsize(screen, &pty.Winsize{Rows: 40, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	enter("until stty size | grep '^40 100'; do :; done\n", "\n40 100")
	enter("echo wai''ting; sleep 1000\n", "waiting")
	if _, err := io.WriteString(screen, "\x03"); err != nil {
		t.Fatal(err)
	}
	enter("echo $((40+2))\n", "42\r\n")
	if _, err := io.WriteString(screen, "exit 7\n"); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // its error is the exit code
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d, want 7", got)
	}
}
