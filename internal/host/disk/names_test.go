package disk_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// TestANewVolumeHasRoomForNames when data has filled it: for a thousand directories and what is kept for what is in them.
func TestANewVolumeHasRoomForNames(t *testing.T) {
	v := volume(t)
	v.Bytes = 2 << 30
	if err := errors.Join(v.Purge(t.Context()), v.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	n, err := btrfs.MetadataBytes(v.Path)
	if err != nil || n < 32<<20 || n > v.Bytes/8 {
		t.Fatalf("%d MiB for metadata, %v", n>>20, err)
	}
	if err := errors.Join(v.Unmount(t.Context()), v.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	if again, err := btrfs.MetadataBytes(v.Path); err != nil || again != n {
		t.Errorf("after another mount it's %d MiB, %v", again>>20, err)
	}
	r := reserve(t, v)
	if err := r.Keep(32 << 20); err != nil {
		t.Fatal(err)
	}
	takeAll(t, v)
	done, err := r.Lend(16 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		dir := filepath.Join(v.Path, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "file"), "content")
	}
	if err := done(); err != nil {
		t.Error(err)
	}
}

// TestAFullVolumeIsMountedAsItIs: one that an earlier version made, and that has been filled since.
func TestAFullVolumeIsMountedAsItIs(t *testing.T) {
	v := volume(t)
	if err := v.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"truncate", "-s", "2G", v.Image},
		{"mkfs.btrfs", "--quiet", "--nodiscard", "--metadata", "single", "--data", "single", v.Image},
		{"mkdir", v.Path},
		{"mount", "-o", "loop,nodiscard", v.Image, v.Path},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	v.Bytes = 2 << 30
	takeAll(t, v)
	before, err := btrfs.MetadataBytes(v.Path)
	if err := errors.Join(err, v.Unmount(t.Context()), v.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n, err := btrfs.MetadataBytes(v.Path); err != nil || n != before || n >= 32<<20 {
		t.Errorf("a full volume with %d MiB for metadata, of %d before, is mounted with %v", n>>20, before>>20, err)
	}
}

// takeAll takes all room of a volume, without writing.
func takeAll(t *testing.T, v disk.Volume) {
	t.Helper()
	r, err := disk.OpenReserve(filepath.Join(v.Path, "others"), 1<<30)
	if err == nil {
		err = r.Keep(v.Bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
}
