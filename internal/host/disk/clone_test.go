package disk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/disk/btrfs"
)

func TestCloneSharesBlocksAndDiverges(t *testing.T) {
	v := volume(t)
	src, dst := filepath.Join(v.Path, "src"), filepath.Join(v.Path, "dst")
	content := bytes.Repeat([]byte("0123456789abcdef"), 2<<20) // 32 MiB
	if err := os.WriteFile(src, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := btrfs.Sync(v.Path); err != nil {
		t.Fatal(err)
	}
	const uid = 301_234
	if err := disk.Clone(src, dst, uid); err != nil {
		t.Fatal(err)
	}
	if err := disk.Clone(src, dst, uid); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second Clone = %v, want ErrExist", err)
	}
	if err := btrfs.Sync(v.Path); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{src, dst} {
		if own, err := disk.Own(t.Context(), path); err != nil || own != 0 {
			t.Errorf("%s has %d bytes that the other one doesn't share, %v", path, own, err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(dst, &st); err != nil || st.Uid != uid || st.Gid != uid || st.Mode&0o777 != 0o600 {
		t.Errorf("the clone belongs to %d:%d with mode %o, %v", st.Uid, st.Gid, st.Mode, err)
	}
	f, err := os.OpenFile(dst, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, werr := f.WriteAt([]byte("changed"), 0)
	if err := errors.Join(werr, f.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(src); err != nil || !bytes.Equal(got, content) {
		t.Errorf("a write to the clone changed its source, %v", err)
	}
}

func TestCloneRefusesLinksAndLeavesNothing(t *testing.T) {
	v := volume(t)
	link, dst := filepath.Join(v.Path, "link"), filepath.Join(v.Path, "dst")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{link, filepath.Join(v.Path, "nothing"), v.Path, "/etc/passwd"} { // the last is on another file system
		if err := disk.Clone(src, dst, 0); err == nil {
			t.Errorf("%s was cloned", src)
		}
		if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a failed clone is left, %v", src, err)
		}
	}
}

func TestSubvolumes(t *testing.T) {
	v := volume(t)
	building, done, copied := filepath.Join(v.Path, "t.new"), filepath.Join(v.Path, "t"), filepath.Join(v.Path, "c")
	if err := disk.CreateSubvolume(building); err != nil {
		t.Fatal(err)
	}
	if err := disk.CreateSubvolume(building); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second CreateSubvolume = %v, want ErrExist", err)
	}
	write(t, filepath.Join(building, "f"), "content")
	for range 2 {
		if err := disk.SetReadOnly(building); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(building, done); err != nil {
		t.Fatal(err)
	}
	if ro, err := btrfs.ReadOnly(done); err != nil || !ro {
		t.Errorf("ReadOnly = %v, %v", ro, err)
	}
	if err := os.WriteFile(filepath.Join(done, "f"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a write into it: %v, want EROFS", err)
	}
	if err := btrfs.Snapshot(done, copied, false); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(copied, "f"), "changed")
	for _, path := range []string{copied, done, done} {
		if err := disk.DeleteSubvolume(path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there, %v", path, err)
		}
	}
	plain := filepath.Join(v.Path, "plain")
	if err := os.Mkdir(plain, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, t.TempDir()} {
		if err := disk.DeleteSubvolume(path); !errors.Is(err, btrfs.ErrNotSubvolume) {
			t.Errorf("DeleteSubvolume of a directory = %v", err)
		}
	}
}

func BenchmarkClone(b *testing.B) {
	v := volume(b)
	src, dst := filepath.Join(v.Path, "src"), filepath.Join(v.Path, "dst")
	if err := os.WriteFile(src, make([]byte, 32<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := btrfs.Sync(v.Path); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := disk.Clone(src, dst, 301_234); err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(dst); err != nil {
			b.Fatal(err)
		}
	}
}

// TestADeletedSubvolumesFileStaysMapped: a machine that has a snapshot's memory mapped keeps it, and the space comes back when it goes.
func TestADeletedSubvolumesFileStaysMapped(t *testing.T) {
	v := volume(t)
	dir := filepath.Join(v.Path, "snapshot")
	if err := disk.CreateSubvolume(dir); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("memory"), 1<<20)
	write(t, filepath.Join(dir, "mem.img"), string(want))
	if err := disk.SetReadOnly(dir); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "mem.img"))
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	if err := disk.DeleteSubvolume(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it's still there: %v", err)
	}
	if err := disk.Sync(dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Madvise(mapped, unix.MADV_DONTNEED), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mapped, want) {
		t.Error("what is mapped has changed")
	}
}

// TestWhatWasDirtyIsInASealedSubvolume mounts the volume anew after the seal of a subvolume that nobody had synced.
func TestWhatWasDirtyIsInASealedSubvolume(t *testing.T) {
	v := volume(t)
	dir, want := filepath.Join(v.Path, "snapshot"), bytes.Repeat([]byte("data"), 4<<20)
	if err := disk.CreateSubvolume(dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "f"), string(want))
	if err := disk.SetReadOnly(dir); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(v.Image) // as after a power loss: nothing that comes later is in it
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Unmount(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(v.Image, image, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	if ro, rerr := btrfs.ReadOnly(dir); err != nil || !bytes.Equal(got, want) || !ro || rerr != nil {
		t.Errorf("it has %d bytes, %v, and is read-only: %v, %v", len(got), err, ro, rerr)
	}
}
