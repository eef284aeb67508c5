package monitor

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// versionLimit bounds how long a program may take to say its version.
	versionLimit = 20 * time.Second
	// maxVersion bounds what it may say, in bytes.
	maxVersion = 16 << 10
	// versionDelay is how long its output is waited for once it has ended: a child of it may have that, and go on.
	versionDelay = time.Second
)

// AskVersion returns what a program prints when it's asked for its version. An operator has named it: it may be any program.
func AskVersion(ctx context.Context, program string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	var out bounded
	c := exec.CommandContext(ctx, program, "--version")
	c.Stdout, c.WaitDelay = &out, versionDelay
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true} // an operator's script has children, which end with it
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	err := c.Run()
	switch {
	case out.over:
		err = fmt.Errorf("it says more than %d bytes", maxVersion)
	case ctx.Err() != nil:
		err = fmt.Errorf("it doesn't say: %w", context.Cause(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", program, err)
	}
	return out.said.Bytes(), nil
}

// bounded takes maxVersion bytes. Nothing of the buffer's is promoted: its ReadFrom would take all.
type bounded struct {
	said bytes.Buffer
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.said.Len()+len(p) > maxVersion {
		b.over = true
		return 0, fmt.Errorf("more than %d bytes", maxVersion)
	}
	return b.said.Write(p)
}
