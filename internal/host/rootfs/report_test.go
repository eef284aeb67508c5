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
