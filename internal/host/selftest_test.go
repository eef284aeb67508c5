package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/jail"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/uids"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/instance/instancetest"
)

// TestDriverThatDoesNotWorkIsRefused, until what was tested is known to have worked.
func TestDriverThatDoesNotWorkIsRefused(t *testing.T) {
	i := instancetest.Own(t)
	j, err := jail.New(i)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(j.Close)
	d, err := fake.New("/nowhere/spaced-guest")
	if err != nil {
		t.Fatal(err)
	}
	h, pool := &Host{jail: j}, uids.New(i.VMUIDs())
	c := Config{Instance: i, Volume: disk.Volume{Path: t.TempDir()}, Driver: d, DataDir: filepath.Join(t.TempDir(), "data"), Kernel: kernel.Files{Digest: "k"}}
	for range 2 {
		err := h.testDriver(t.Context(), c, pool)
		if err == nil || !strings.Contains(err.Error(), "this node can't run machines: test the fake driver: boot and save:") {
			t.Fatalf("got %v, want the step", err)
		}
	}
	if left, err := j.Leftovers(nil); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteJSON(filepath.Join(c.DataDir, testedName), testedOf(c), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.testDriver(t.Context(), c, pool); err != nil {
		t.Errorf("what worked before is tested again: %v", err)
	}
	c.Paged = true
	if err := h.testDriver(t.Context(), c, pool); err == nil {
		t.Error("another way in which memory comes isn't tested")
	}
	c.Paged, c.Kernel.Digest = false, "another"
	if err := h.testDriver(t.Context(), c, pool); err == nil {
		t.Error("another kernel isn't tested")
	}
}
