package sparse_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/sparse"
)

// TestCopyKeepsContentAndHoles copies a file that begins and ends with a hole.
func TestCopyKeepsContentAndHoles(t *testing.T) {
	src, dst := create(t, "src"), create(t, "dst")
	const size = 8 << 20
	if err := src.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{1 << 20, 5 << 20} {
		if _, err := src.WriteAt([]byte("data"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := sparse.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if a, b := content(t, src), content(t, dst); len(b) != size || !bytes.Equal(a, b) {
		t.Errorf("the copy has %d bytes and differs", len(b))
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(dst.Fd()), &st); err != nil || st.Blocks*512 > size/4 {
		t.Errorf("the copy takes %d bytes: its holes are gone (%v)", st.Blocks*512, err)
	}
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, f *os.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
