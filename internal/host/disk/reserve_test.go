package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk"
)

// TestTheReserveIsRoomOnAFullVolume fills a volume until nothing more fits.
func TestTheReserveIsRoomOnAFullVolume(t *testing.T) {
	v := volume(t)
	v.Bytes = 512 << 20
	if err := errors.Join(v.Purge(t.Context()), v.Ensure(t.Context())); err != nil {
		t.Fatal(err)
	}
	use(t, v)
	r := disk.Reserve{Path: filepath.Join(v.Path, "reserve"), Bytes: 16 << 20}
	for range 2 {
		if err := r.Fill(); err != nil {
			t.Fatal(err)
		}
	}
	full := fill(t, filepath.Join(v.Path, "others"))
	if write := fill(t, filepath.Join(v.Path, "before")); write > 4<<20 {
		t.Fatalf("%d bytes fit on a volume that %d bytes had filled", write, full)
	}
	done, err := r.Use()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Fill(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reserve is filled while its room is used: %v", err)
	}
	if got := fill(t, filepath.Join(v.Path, "suspend")); got < r.Bytes/2 {
		t.Errorf("%d bytes fit into the reserve of %d", got, r.Bytes)
	}
	again, err := r.Use() // by another one
	if err != nil {
		t.Fatal(err)
	}
	there := func() bool { _, err := os.Stat(r.Path); return err == nil }
	if err := done(); err != nil || there() {
		t.Errorf("the reserve is there while its room is used: %v, %v", there(), err)
	}
	if err := again(); err != nil || there() {
		t.Errorf("on a volume without room for it it's there: %v, %v", there(), err)
	}
	if again, err = r.Use(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(v.Path, "suspend")), disk.Sync(r.Path)); err != nil {
		t.Fatal(err)
	}
	if err := again(); err != nil || !there() {
		t.Errorf("when it was used and there's room it's there: %v, %v", there(), err)
	}
}

// use writes small files and removes them. On a volume that was never used there's no room for the names of more files when its data has filled it.
func use(t *testing.T, v disk.Volume) {
	t.Helper()
	dir := filepath.Join(v.Path, "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 6000 {
		write(t, filepath.Join(dir, strconv.Itoa(i)), strings.Repeat("x", 2000))
	}
	if err := errors.Join(disk.Sync(v.Path+"/x"), os.RemoveAll(dir), disk.Sync(v.Path+"/x")); err != nil {
		t.Fatal(err)
	}
}

// fill writes a file until there's no room, and returns how much there was.
func fill(t *testing.T, path string) (bytes int64) {
	t.Helper()
	f, err := os.Create(path)
	if errors.Is(err, unix.ENOSPC) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for chunk := make([]byte, 1<<20); ; bytes += int64(len(chunk)) {
		if _, err = f.Write(chunk); err == nil {
			err = f.Sync()
		}
		if errors.Is(err, unix.ENOSPC) {
			return bytes
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
