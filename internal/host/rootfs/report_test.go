package rootfs

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
)

// TestWhatAptHasNot: a suite or a package that there isn't is the order's fault, by its field; what else fails isn't.
func TestWhatAptHasNot(t *testing.T) {
	o := Order{Debian: Debian{Suite: "nosuch"}, Dir: "/x"}
	for said, want := range map[string]string{
		"E: The repository 'http://deb.debian.org/debian nosuch Release' does not have a Release file.\nE: mmdebstrap failed to run": "debian.suite: there is no Debian nosuch at http://deb.debian.org/debian",
		"Building dependency tree...\nE: Unable to locate package hi\nE: setup failed":                                               "debian.packages: Debian nosuch has no package hi",
		"E: Failed to fetch http://deb.debian.org/debian/pool/x.deb":                                                                 "",
	} {
		var out bytes.Buffer
		o.print(&out, Result{}, orderedWrongly(o.Debian.Suite, errors.New(said)))
		var e *space.Error
		err := listen(&out, func(string) {}).error(errors.New("exit status 1"))
		if got := errors.As(err, &e); got != (want != "") || got && e.Field+": "+e.Message != want {
			t.Errorf("%q: got %v, want %q", said, err, want)
		}
	}
}

// TestWhatAHelperSaysOfAFailure: a full disk keeps its code across processes, and where the node keeps things stays with it.
func TestWhatAHelperSaysOfAFailure(t *testing.T) {
	o := Order{Image: "x", Dir: "/var/lib/space/volume/templates/x.new", Layers: "/var/lib/space/blobs"}
	for code, cause := range map[space.Code]error{space.CodeCapacity: unix.ENOSPC, space.CodeInternal: unix.EIO} {
		var out bytes.Buffer
		if o.print(&out, Result{}, &os.PathError{Op: "write", Path: o.Dir + "/rootfs.img", Err: cause}) == 0 {
			t.Fatal("a failure succeeds")
		}
		err := listen(&out, func(string) {}).error(errors.New("exit status 1"))
		if space.CodeOf(err) != code || strings.Contains(err.Error(), "/var/lib") {
			t.Errorf("got %v, want %s", err, code)
		}
	}
}
