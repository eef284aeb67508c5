//go:build vm

package kernel_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/space-platform/space/internal/host/kernel"
)

// The whole way, with the machine's own apt: the machine's tests boot what this makes.
func TestDebiansKernel(t *testing.T) {
	guest := filepath.Join(t.TempDir(), "spaced-guest")
	write(t, guest, "the guest")
	var said []string
	o := kernel.Options{Dir: t.TempDir(), Guest: guest, Kind: kernel.Cloud, Progress: func(line string) { said = append(said, line) }}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	f, err := kernel.Prepare(ctx, o)
	if err != nil {
		t.Fatalf("%v, after %q", err, said)
	}
	if info, err := os.Stat(f.Vmlinux); err != nil || info.Size() < 20<<20 {
		t.Errorf("a kernel of %v, %v", info, err)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(f.Vmlinux), "modules", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range names {
		got = append(got, strings.TrimSuffix(filepath.Base(n), ".ko"))
	}
	want := []string{"failover", "net_failover", "virtio", "virtio_blk", "virtio_console", "virtio_mmio", "virtio_net", "virtio_ring", "virtio_rng",
		"vmw_vsock_virtio_transport", "vmw_vsock_virtio_transport_common", "vsock"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules: want -, got +:\n%s", diff)
	}
	o.Update = true // apt has nothing newer
	if again, err := kernel.Prepare(ctx, o); err != nil || again != f {
		t.Errorf("an update returned %+v, %v, want %+v", again, err, f)
	}
	left, err := filepath.Glob(filepath.Join(o.Dir, ".scratch-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
