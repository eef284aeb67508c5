package pages

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/space-platform/space/internal/host/sparse"
)

// TestOnlyPagesThatDifferAreWritten over a file that is one hole: those that are zeroes, as it is there, make no data.
func TestOnlyPagesThatDifferAreWritten(t *testing.T) {
	const most = 3 * compareBytes / pageBytes
	rapid.Check(t, func(t *rapid.T) {
		fd, err := unix.MemfdCreate("pages", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "pages")
		defer f.Close()
		if err := f.Truncate(2 * most * pageBytes); err != nil {
			t.Fatal(err)
		}
		differs := rapid.SliceOfN(rapid.Bool(), 1, most).Draw(t, "differs")
		first := rapid.IntRange(0, most).Draw(t, "first")
		pages := make([]byte, len(differs)*pageBytes)
		want := make([]byte, 2*most*pageBytes)
		for i, d := range differs {
			if d {
				pages[(i+1)*pageBytes-1] = 1
			}
		}
		copy(want[first*pageBytes:], pages)
		if n, err := To(f, true).WriteAt(pages, int64(first*pageBytes)); err != nil || n != len(pages) {
			t.Fatal(n, err)
		}
		got := make([]byte, len(want))
		if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("the file has something else, %v", err)
		}
		written := make([]bool, len(differs))
		err = sparse.Data(f, int64(len(want)), func(start, end int64) error {
			for at := start; at < end; at += pageBytes {
				if i := int(at/pageBytes) - first; i < 0 || i >= len(differs) || !differs[i] {
					t.Errorf("page %d was written", i)
				} else {
					written[i] = true
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range differs {
			if differs[i] != written[i] {
				t.Errorf("page %d: written %v, want %v", i, written[i], differs[i])
			}
		}
	})
}

// TestWhatCantBeComparedIsAnError: pages beyond the file's end have nothing to be compared with.
func TestWhatCantBeComparedIsAnError(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := (Sparing{f}).WriteAt(make([]byte, pageBytes), 0); err == nil {
		t.Error("they were written")
	}
}
