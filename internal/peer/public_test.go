package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// TestPublicTellsNoPath: whatever goes wrong in a process of ours, those who called it read a code and a sentence, and no path of the machine.
func TestPublicTellsNoPath(t *testing.T) {
	const path = "/var/lib/space/volume/x"
	full := &os.PathError{Op: "write", Path: path, Err: unix.ENOSPC}
	for name, c := range map[string]struct {
		err  error
		code space.Code
	}{
		"a full disk":                   {fmt.Errorf("reserve session: %w", full), space.CodeCapacity},
		"a full disk behind our error":  {space.Errorf(space.CodeInternal, "make %s: %w", "it", full), space.CodeCapacity},
		"a share that is used up":       {&os.PathError{Op: "write", Path: path, Err: unix.EDQUOT}, space.CodeCapacity},
		"no more open files":            {fmt.Errorf("make a namespace: %w", &os.PathError{Op: "open", Path: path, Err: unix.EMFILE}), space.CodeUnavailable},
		"no more of the machine's":      {&os.SyscallError{Syscall: "socket", Err: unix.ENFILE}, space.CodeUnavailable},
		"no memory, behind our error":   {space.Errorf(space.CodeInternal, "start it: %w", unix.ENOMEM), space.CodeUnavailable},
		"no more processes":             {&os.PathError{Op: "fork/exec", Path: path, Err: unix.EAGAIN}, space.CodeUnavailable},
		"anything else":                 {&os.PathError{Op: "open", Path: path, Err: unix.EIO}, space.CodeInternal},
		"a deadline":                    {fmt.Errorf("dial %s: %w", path, context.DeadlineExceeded), space.CodeTimeout},
		"a cause behind a code":         {space.Errorf(space.CodeGuest, "the guest is away: %w", fmt.Errorf("dial %s", path)), space.CodeGuest},
		"a transport that didn't reach": {FromConnect(fmt.Errorf("dial unix %s: %w", path, errors.New("refused"))), space.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := Public(c.err)
			if e.Code != c.code || e.Message == "" || strings.Contains(e.Message, path) {
				t.Errorf("%s: %q, want %s without the path", e.Code, e.Message, c.code)
			}
			if m := ErrorMessage(c.err); m.GetCode() != string(c.code) || m.GetMessage() != e.Message {
				t.Errorf("on the wire: %v", m)
			}
		})
	}
}
