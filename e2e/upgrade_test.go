//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

// TestAnotherBuildGoesOn replaces the daemons by those of another build, and back, under an open session: the machine is the same one, and its
// client notices nothing.
func TestAnotherBuildGoesOn(t *testing.T) {
	const version = "another-build"
	other := build(t, version)
	s := create(t, "mini")
	machine := vmm(t, s)
	open := session(t, s, client.SessionCreate{Shell: ptr(`i=0; while [ ! -e /tmp/enough ]; do echo "line $i"; i=$((i+1)); usleep 20000; done`)})
	a := beginFollowing(t, open, func(client.Event) {})
	usual := serving(t)
	t.Cleanup(func() { show("up", "--no-install", "--instance", platform.instance.Name) }) // whatever came between
	for _, b := range []struct{ binary, version string }{{other, version}, {platform.binary, usual}} {
		before := roles(t)
		if out, err := exec.Command(b.binary, "up", "--no-install", "--instance", platform.instance.Name).CombinedOutput(); err != nil {
			t.Fatalf("up: %v\n%s", err, out)
		}
		for r, pid := range roles(t) {
			if pid == 0 || (pid == before[r]) != (r == instance.Postgres) {
				t.Errorf("role %s: process %d, and %d of the other build", r, before[r], pid)
			}
		}
		if now := serving(t); now != b.version {
			t.Errorf("the control plane is of build %s, want %s", now, b.version)
		}
		if now := vmm(t, s); now != machine {
			t.Errorf("the machine's process was %d and is %d", machine, now)
		}
	}
	runIn(t, s, shell("touch /tmp/enough")).want(t, 0, "", "")
	got := <-a.done
	lines := strings.SplitAfter(string(got.stdout), "\n")
	got.want(t, 0, numbered(len(lines)-1), "")
}

// build makes a binary like the one under test, with a version of its own, and returns its path.
func build(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+version, "-o", filepath.Join(dir, "space"), "../cmd/space")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	guest := filepath.Join(filepath.Dir(platform.binary), "spaced-guest")
	if err := os.Symlink(guest, filepath.Join(dir, "spaced-guest")); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "space")
}

// serving is the build of the control plane.
func serving(t *testing.T) string {
	t.Helper()
	h, err := platform.client.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.Version
}
