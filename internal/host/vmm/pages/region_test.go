package pages_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/vmm/pages"
)

const page = 4096

// Of an anonymous memory only what is there is copied, and of that only what differs from the file.
func TestWhatIsPresentIsCopiedAndTheRestStays(t *testing.T) {
	const n = 700
	r := rand.NewChaCha8([32]byte{1})
	base := make([]byte, n*page)
	r.Read(base)
	clear(base[10*page : 20*page]) // a hole, below
	path := filepath.Join(t.TempDir(), "memory")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(n * page); err != nil {
		t.Fatal(err)
	}
	f.WriteAt(base[:10*page], 0)
	f.WriteAt(base[20*page:], 20*page)

	a, b := anonymous(t, 300), anonymous(t, 400)
	want := bytes.Clone(base)
	for _, i := range []int{0, 1, 2, 12, 250, 299, 300, 301, 650, 699} { // touched: as the file has it
		copy(at(a, b, i), base[i*page:(i+1)*page])
	}
	for _, i := range []int{1, 13, 299, 300, 650} { // changed
		at(a, b, i)[7] = 0xaa
		copy(want[i*page:(i+1)*page], at(a, b, i))
	}
	clear(at(a, b, 30))
	clear(want[30*page : 31*page])
	regions := []pages.Region{ // in whatever order
		{Address: address(b), Offset: 300 * page, Bytes: 400 * page}, {Address: address(a), Offset: 0, Bytes: 300 * page},
	}
	if err := pages.CopyPresent(t.Context(), os.Getpid(), regions, f); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		for i := range n {
			if !bytes.Equal(got[i*page:(i+1)*page], want[i*page:(i+1)*page]) {
				t.Errorf("page %d isn't as it should be", i)
			}
		}
	}
	if data, err := unix.Seek(int(f.Fd()), 14*page, unix.SEEK_DATA); err != nil || data != 20*page {
		t.Errorf("after the page in the hole data begins at %d, %v, want %d", data, err, 20*page)
	}
	if hole, err := unix.Seek(int(f.Fd()), 11*page, unix.SEEK_DATA); err != nil || hole != 13*page {
		t.Errorf("a page of zeros was written into a hole: data at %d, %v", hole, err)
	}
}

func anonymous(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(b) })
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatal(err)
	}
	return b
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// at is a page of two regions that follow each other.
func at(a, b []byte, i int) []byte {
	if n := len(a) / page; i >= n {
		a, i = b, i-n
	}
	return a[i*page : (i+1)*page]
}

func TestRegionsAreAllOfAMemoryOnce(t *testing.T) {
	for name, c := range map[string]struct {
		regions []pages.Region
		ok      bool
	}{
		"one":         {[]pages.Region{{page, 0, 4 * page}}, true},
		"two":         {[]pages.Region{{9 * page, 2 * page, 2 * page}, {page, 0, 2 * page}}, true},
		"none":        {nil, false},
		"a gap":       {[]pages.Region{{page, 0, page}, {9 * page, 2 * page, 2 * page}}, false},
		"too short":   {[]pages.Region{{page, 0, 3 * page}}, false},
		"twice":       {[]pages.Region{{page, 0, 2 * page}, {9 * page, page, 3 * page}}, false},
		"one address": {[]pages.Region{{page, 0, 2 * page}, {2 * page, 2 * page, 2 * page}}, false},
		"half a page": {[]pages.Region{{page, 0, page / 2}, {9 * page, page / 2, 4*page - page/2}}, false},
		"crooked":     {[]pages.Region{{page + 1, 0, 4 * page}}, false},
		"kernel":      {[]pages.Region{{1 << 63, 0, 4 * page}}, false},
		"wraps":       {[]pages.Region{{1<<64 - page, 0, 4 * page}}, false},
	} {
		if err := pages.CheckRegions(c.regions, 4*page); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
