package disk_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

// volume makes a small real one and removes it after the test.
func volume(t testing.TB) disk.Volume {
	t.Helper()
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	t.Cleanup(func() {
		if err := v.Purge(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return v
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEnsureIsIdempotentAndSurvivesUnmount(t *testing.T) {
	v := volume(t)
	write(t, filepath.Join(v.Path, "f"), "kept")
	for range 2 {
		if err := v.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dev, err := disk.Device(v.Image)
	if err != nil || dev == "" {
		t.Fatalf("Device = %q, %v", dev, err)
	}
	if b, err := os.ReadFile("/sys/block/" + filepath.Base(dev) + "/loop/dio"); err == nil && string(b) != "1\n" {
		t.Errorf("direct I/O is %q", b)
	}
	for range 2 {
		if err := v.Unmount(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if dev, err := disk.Device(v.Image); err != nil || dev != "" {
		t.Fatalf("after Unmount the image is attached to %q, %v", dev, err)
	}
	if mounted, err := v.Mounted(); err != nil || mounted {
		t.Errorf("Mounted = %v, %v", mounted, err)
	}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(v.Path, "f")); err != nil || string(b) != "kept" {
		t.Errorf("after mounting again: %q, %v", b, err)
	}
}

func TestMountOptions(t *testing.T) {
	v := volume(t)
	var s unix.Statfs_t
	if err := unix.Statfs(v.Path, &s); err != nil {
		t.Fatal(err)
	}
	if want := int64(unix.ST_NODEV | unix.ST_NOSUID | unix.ST_NOEXEC | unix.ST_NOATIME); s.Flags&want != want {
		t.Errorf("mount flags are %#x, want %#x of them", s.Flags, want)
	}
}

func TestTheImageStaysWholeWhenFilesAreDeleted(t *testing.T) {
	v := volume(t)
	path := filepath.Join(v.Path, "f")
	if err := os.WriteFile(path, bytes.Repeat([]byte("data"), 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(btrfs.Sync(v.Path), os.Remove(path), btrfs.Sync(v.Path)); err != nil {
		t.Fatal(err)
	}
	u, err := v.Usage()
	if err != nil || u.ImageBytes != v.Bytes || u.AllocatedBytes < v.Bytes || u.BelowFreeBytes == 0 || u.Bytes == 0 || u.FreeBytes == 0 {
		t.Errorf("usage %+v, %v, want all %d bytes allocated", u, err, v.Bytes)
	}
}

func TestAnImageThatDoesNotFitIsRefusedBeforeAnythingIsMade(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=200m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 100 << 20}
	if err := v.Ensure(t.Context()); !errors.Is(err, disk.ErrNoRoom) {
		t.Errorf("with a reserve that doesn't fit: %v, want ErrNoRoom", err)
	}
	v.Bytes = 1 << 20
	if err := v.Ensure(t.Context()); err == nil {
		t.Error("a volume of 1 MiB was accepted")
	}
	left, err := filepath.Glob(filepath.Join(dir, "volume.img*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAnUnfinishedImageIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes, Reserve: 1}
	t.Cleanup(func() { v.Purge(context.Background()) })
	write(t, v.Image+".new", "half")
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNoLoopDeviceLeaksWhenTheMountFails(t *testing.T) {
	dir := t.TempDir()
	v := disk.Volume{Path: filepath.Join(dir, "volume"), Image: filepath.Join(dir, "volume.img"), Bytes: disk.MinBytes}
	if err := os.WriteFile(v.Image, make([]byte, 1<<20), 0o600); err != nil { // no file system in it
		t.Fatal(err)
	}
	if err := v.Ensure(t.Context()); err == nil {
		t.Fatal("an image without a file system was mounted")
	}
	if err := v.Unmount(t.Context()); err != nil { // waits until it's detached
		t.Error(err)
	}
}

func TestADataDirectoryOnBtrfsNeedsNoImage(t *testing.T) {
	outer := volume(t)
	v := disk.Volume{Path: filepath.Join(outer.Path, "volume"), Image: filepath.Join(outer.Path, "volume.img"), Bytes: disk.MinBytes}
	for range 2 {
		if err := v.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(v.Image); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an image was made: %v", err)
	}
	u, err := v.Usage()
	if mounted, merr := v.Mounted(); merr != nil || !mounted || err != nil || u.ImageBytes != 0 || u.FreeBytes == 0 {
		t.Errorf("mounted %v, %v; usage %+v, %v", mounted, merr, u, err)
	}
	if err := v.Purge(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAnUnmountInUseIsAnError(t *testing.T) {
	v := volume(t)
	f, err := os.Create(filepath.Join(v.Path, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := v.Unmount(t.Context()); !errors.Is(err, unix.EBUSY) {
		t.Errorf("Unmount = %v, want EBUSY", err)
	}
}
