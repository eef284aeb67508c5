package execution

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// TestTheRecordTellsNoPath: what the record says of a failure becomes an operation's error.
func TestTheRecordTellsNoPath(t *testing.T) {
	const path = "/run/space/vm/exe/link.sock"
	for code, err := range map[space.Code]error{
		space.CodeGuest:    space.Errorf(space.CodeGuest, "the guest didn't come up: %w", &os.PathError{Op: "read", Path: path, Err: unix.ECONNRESET}),
		space.CodeCapacity: &os.PathError{Op: "write", Path: path, Err: unix.ENOSPC},
		space.CodeInternal: &os.PathError{Op: "write", Path: path, Err: unix.EIO},
	} {
		if p := problemOf(err); p.Code != code || p.Message == "" || strings.Contains(p.Message, path) {
			t.Errorf("%v: %+v, want %s without the path", err, p, code)
		}
	}
}
