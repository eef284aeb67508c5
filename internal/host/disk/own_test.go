package disk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/host/seal"
)

func TestOwnIsWhatACloneTakesBeyondItsSource(t *testing.T) {
	v := volume(t)
	src, dst := filepath.Join(v.Path, "src"), filepath.Join(v.Path, "dst")
	const size, changed = 16 << 20, 3 << 20
	if err := os.WriteFile(src, bytes.Repeat([]byte("x"), size), 0o600); err != nil {
		t.Fatal(err)
	}
	sync := func() {
		if err := btrfs.Sync(v.Path); err != nil {
			t.Fatal(err)
		}
	}
	check := func(path string, want int64) {
		t.Helper()
		if got, err := disk.Own(t.Context(), path); err != nil || got != want {
			t.Errorf("%s has %d bytes of its own, %v, want %d", filepath.Base(path), got, err, want)
		}
	}
	sync()
	check(src, size)
	if err := disk.Clone(src, dst, 0); err != nil {
		t.Fatal(err)
	}
	sync()
	check(dst, 0)
	f, err := os.OpenFile(dst, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(bytes.Repeat([]byte("y"), changed), 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(4 * size); err != nil { // a hole at the end
		t.Fatal(err)
	}
	sync()
	check(dst, changed)
	parts, err := disk.OwnParts(t.Context(), dst)
	if want := []seal.Part{{Offset: 1 << 20, Bytes: changed}}; err != nil || !slices.Equal(parts, want) {
		t.Errorf("its own parts are %v, %v, want %v", parts, err, want)
	}
	if _, err := disk.Own(t.Context(), filepath.Join(v.Path, "none")); err == nil {
		t.Error("a file that isn't there was measured")
	}
}
