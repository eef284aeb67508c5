package qemu

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// guestMemory is a file with content at an offset, and holes around it.
func guestMemory(t testing.TB, at int64, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "memory"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(16 << 20); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, at); err != nil {
		t.Fatal(err)
	}
	return f
}

// ringOf lays out texts as a kernel does.
func ringOf(texts ...string) []byte {
	var b []byte
	for i, text := range texts {
		b = binary.LittleEndian.AppendUint64(b, uint64(firstNumber-4096+i))
		b = append(b, text...)
		b = append(b, make([]byte, 8-len(text)%8)...)
	}
	return append(b, make([]byte, 4096)...)
}

func TestKernelLogIsFoundInMemory(t *testing.T) {
	ring := ringOf("Linux version 6.1 (a kernel)", "Command line: quiet", "eight by", "Kernel panic - not syncing: no init found")
	decoy := append([]byte("........Linux version 6.1 in the kernel's text\x00"), make([]byte, 9)...)
	for name, at := range map[string]int64{"at a page": 4 << 20, "across what is read at once": 5<<20 - 8, "at the end of memory": 16<<20 - int64(len(ring))} {
		f := guestMemory(t, at, ring)
		if _, err := f.WriteAt(decoy, 1<<20); err != nil {
			t.Fatal(err)
		}
		want := "Linux version 6.1 (a kernel)\nCommand line: quiet\neight by\nKernel panic - not syncing: no init found"
		if got := kernelLog(f, 16<<20); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestKernelLogIsBounded(t *testing.T) {
	texts := []string{"Linux version 6.1"}
	for range 2000 {
		texts = append(texts, strings.Repeat("x", 100))
	}
	got := kernelLog(guestMemory(t, 1<<20, ringOf(append(texts, "the end")...)), 16<<20)
	if len(got) != maxKernelSaid || !strings.HasSuffix(got, "\nthe end") {
		t.Errorf("got %d bytes that end with %q", len(got), got[max(0, len(got)-20):])
	}
	if got := kernelLog(guestMemory(t, 1<<20, bytes.Repeat([]byte("Linux version "), 10_000)), 16<<20); got != "" {
		t.Errorf("out of what is no log came %q", got)
	}
}

func FuzzKernelLog(f *testing.F) {
	f.Add(ringOf("Linux version 6.1", "hello"))
	f.Add([]byte("\x00\xf0\xff\xff\x00\x00\x00\x00Linux version "))
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 8<<20 {
			return
		}
		if got := kernelLog(guestMemory(t, 4<<20, content), 16<<20); len(got) > maxKernelSaid {
			t.Errorf("it has %d bytes", len(got))
		}
	})
}
