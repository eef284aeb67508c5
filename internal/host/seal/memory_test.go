package seal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/promise"
)

func TestSealedMemoryCanBeMappedAndNotChanged(t *testing.T) {
	path := write(t, t.TempDir(), "memory", []byte{2, 0, 3, 0})
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, letGo, err := Memory(path, promise.New(4*blockBytes).Share)
	if err != nil {
		t.Fatal(err)
	}
	defer letGo()
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 != 2*blockBytes {
		t.Errorf("it takes %d bytes, %v, want the two blocks that aren't holes", st.Blocks*512, err)
	}
	lacks(t, f, 2*blockBytes)
	open, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0) // as QEMU does
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := open.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("a write: %v, want %v", err, unix.EPERM)
	}
	if err := unix.Fallocate(int(open.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, blockBytes); !errors.Is(err, unix.EPERM) {
		t.Errorf("a hole: %v, want %v", err, unix.EPERM)
	}
	if _, err := unix.Mmap(int(open.Fd()), 0, blockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("a shared mapping: %v, want %v", err, unix.EPERM)
	}
	private, err := unix.Mmap(int(open.Fd()), 0, len(want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(private)
	if !bytes.Equal(private, want) {
		t.Error("the content differs")
	}
	lacks(t, f, 0) // what was read has pages now, though it's holes that nobody may write to
	private[0] = 'x'
	if got := make([]byte, 1); true {
		if _, err := open.ReadAt(got, 0); err != nil || got[0] != want[0] {
			t.Errorf("a private change shows: %v, %v", got, err)
		}
	}
}

// TestMemoryIsPromisedBeforeItsShared as large as it may become; what can't be shared gives it back.
func TestMemoryIsPromisedBeforeItsShared(t *testing.T) {
	path := write(t, t.TempDir(), "memory", []byte{2, 0, 3, 0})
	l := promise.New(4 * blockBytes)
	f, letGo, err := Memory(path, l.Share)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Identify(f)
	if err != nil || s.Bytes != 4*blockBytes || l.Left() != 0 {
		t.Errorf("%+v, %v, and %d bytes are left", s, err, l.Left())
	}
	if _, _, err := Memory(path, l.Share); !errors.Is(err, ErrUnpromised) {
		t.Errorf("a second one: %v, want %v", err, ErrUnpromised)
	}
	hold := l.Hold(s)
	if letGo(); l.Left() != 0 {
		t.Error("it's taken back though a machine has it")
	}
	if hold(); l.Left() != 4*blockBytes {
		t.Errorf("%d bytes are left", l.Left())
	}
}

func lacks(t *testing.T, f *os.File, want int64) {
	t.Helper()
	if got, err := Lacks(f); err != nil || got != want {
		t.Errorf("it has no pages for %d bytes, %v, want %d", got, err, want)
	}
}
