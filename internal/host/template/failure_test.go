package template

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

func TestWhatAUserIsToldOfAFailedBuild(t *testing.T) {
	const path = "/var/lib/space/volume/templates/x.new/rootfs.img"
	for code, err := range map[space.Code]error{
		space.CodeCapacity: at(2, &os.PathError{Op: "write", Path: path, Err: unix.ENOSPC}),
		space.CodeInternal: at(2, &os.PathError{Op: "write", Path: path, Err: unix.EIO}),
		space.CodeGuest:    at(2, space.Errorf(space.CodeGuest, "it ended with status 1")),
	} {
		e := failure(err)
		if e.Code != code || strings.Contains(e.Message, path) || e.Message == "" {
			t.Errorf("%v: %s %q, want %s without the path", err, e.Code, e.Message, code)
		}
	}
}
