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
	r := reserve(t, v)
	for range 2 {
		if err := r.Keep(64 << 20); err != nil {
			t.Fatal(err)
		}
	}
	full := fill(t, filepath.Join(v.Path, "others"))
	if write := fill(t, filepath.Join(v.Path, "before")); write > 4<<20 {
		t.Fatalf("%d bytes fit on a volume that %d bytes had filled", write, full)
	}
	done, err := r.Lend(48 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(64 << 20); err != nil {
		t.Fatal(err)
	}
	held(t, v, 16<<20)
	if got := fill(t, filepath.Join(v.Path, "suspend")); got < 44<<20 || got > 48<<20 {
		t.Errorf("%d bytes fit into 48 MiB of the reserve", got)
	}
	again, err := r.Lend(48 << 20) // to another one
	if err != nil {
		t.Fatal(err)
	}
	held(t, v, 0)
	if got := fill(t, filepath.Join(v.Path, "another")); got < 13<<20 {
		t.Errorf("%d bytes fit into the last 16 MiB of the reserve", got)
	}
	if err := errors.Join(done(), again()); err != nil {
		t.Fatal(err)
	}
	if got := size(t, v); got > 4<<20 {
		t.Errorf("%d bytes are kept on a full volume", got)
	}
	if err := errors.Join(os.Truncate(filepath.Join(v.Path, "suspend"), 16<<20), disk.Sync(v.Path+"/x")); err != nil {
		t.Fatal(err)
	}
	if r, err = disk.OpenReserve(filepath.Join(v.Path, "reserve"), 16<<20); err != nil { // another life
		t.Fatal(err)
	}
	if err := r.Keep(64 << 20); err != nil {
		t.Fatal(err)
	}
	if got := size(t, v); got < 16<<20 || got >= 64<<20 {
		t.Errorf("%d bytes are kept where there's room for some", got)
	}
	if err := errors.Join(os.Remove(filepath.Join(v.Path, "another")), os.Remove(filepath.Join(v.Path, "suspend")), disk.Sync(v.Path+"/x"), r.Keep(64<<20)); err != nil {
		t.Fatal(err)
	}
	held(t, v, 64<<20)
	if err := r.Keep(2 << 20); err != nil {
		t.Fatal(err)
	}
	held(t, v, 2<<20)
	if r, err = disk.OpenReserve(filepath.Join(v.Path, "reserve"), 16<<20); err != nil || r.Bytes() != 2<<20 {
		t.Errorf("another life finds %d bytes kept, %v", r.Bytes(), err)
	}
}

func reserve(t *testing.T, v disk.Volume) *disk.Reserve {
	t.Helper()
	r, err := disk.OpenReserve(filepath.Join(v.Path, "reserve"), 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// size is how much room the reserve's file has, which are whole blocks.
func size(t *testing.T, v disk.Volume) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(v.Path, "reserve"), &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 != st.Size {
		t.Errorf("the reserve is %d bytes long and has room for %d", st.Size, st.Blocks*512)
	}
	return st.Size
}

func held(t *testing.T, v disk.Volume, want int64) {
	t.Helper()
	if got := size(t, v); got != want {
		t.Errorf("%d bytes are kept, want %d", got, want)
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
