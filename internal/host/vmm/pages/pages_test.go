package pages

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/space-platform/space/internal/host/seal"
)

// entries writes a pagemap in which the given pages have changed.
func pagemapOf(changed []bool) []byte {
	var b []byte
	for i, c := range changed {
		e := uint64(pagePresent | pageOfFile) // read, but the file's
		switch {
		case c && i%2 == 0:
			e = pagePresent
		case c:
			e = pageSwapped
		case i%3 == 0:
			e = 0
		}
		b = binary.NativeEndian.AppendUint64(b, e)
	}
	return b
}

func TestRunsCoverTheChangedPagesAndNoOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Bool(), 0, 2000).Draw(t, "changed")
		if rapid.Bool().Draw(t, "dense") {
			for i := range want {
				want[i] = want[i] || i%7 != 0
			}
		}
		got := make([]bool, len(want))
		err := runs(pagemapOf(want), func(page, count int64) error {
			if count < 1 || count > chunkPages {
				t.Fatalf("a run of %d pages", count)
			}
			for i := page; i < page+count; i++ {
				if got[i] {
					t.Fatalf("page %d comes twice", i)
				}
				got[i] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("page %d: copied %v, want %v", i, got[i], want[i])
			}
		}
	})
}

func TestSearchFindsTheGuestsMemory(t *testing.T) {
	const maps = `555555554000-555555558000 r--p 00000000 fe:00 42      /usr/bin/qemu
7f0000000000-7f0000100000 rw-p 00000000 00:1b 42                         /vm/memory
7f0000200000-7f0000300000 rw-s 00000000 00:1b 43                         /vm/memory (deleted)
7f0000400000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000700000 rw-p 00200000 00:1b 45                         /vm/memory
7f0000800000-7f0000a00000 rw-p 00000000 00:1b 45                         /vm/memory
7f0000c00000-7f0000d00000 rw-p 00100000 00:1b 46                         /vm/memory
`
	parts, err := search(strings.NewReader(maps), Memory{Inode: 42, Bytes: 1 << 20})
	if err != nil || len(parts) != 1 || parts[0].start != 0x7f0000000000 {
		t.Errorf("search = %+v, %v", parts, err)
	}
	parts, err = search(strings.NewReader(maps), Memory{Inode: 45, Bytes: 3 << 20})
	if err != nil || len(parts) != 2 || parts[0].start != 0x7f0000800000 || parts[1].start != 0x7f0000600000 {
		t.Errorf("search = %+v, %v", parts, err)
	}
	for name, m := range map[string]Memory{
		"shared":          {Inode: 43, Bytes: 1 << 20},
		"another size":    {Inode: 42, Bytes: 2 << 20},
		"another file":    {Inode: 44, Bytes: 1 << 20},
		"too little":      {Inode: 45, Bytes: 4 << 20},
		"with a gap":      {Inode: 46, Bytes: 2 << 20},
		"only the middle": {Inode: 46, Bytes: 1 << 20},
	} {
		if parts, err := search(strings.NewReader(maps), m); err == nil {
			t.Errorf("%s: found %+v", name, parts)
		}
	}
}

// The kernel itself: a private mapping of this process, with pages read, written and left alone.
func TestChangedPagesOfARealMapping(t *testing.T) {
	const pages = 3*chunkPages + 5
	path := filepath.Join(t.TempDir(), "memory")
	base := bytes.Repeat([]byte("base"), pages*pageBytes/4)
	if err := os.WriteFile(path, base, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, len(base), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	want := bytes.Clone(base)
	for page := range pages {
		switch at := page * pageBytes; {
		case page%5 == 0, page > 2*chunkPages:
			copy(m[at:], "changed")
			copy(want[at:], "changed")
		case page%5 == 1:
			_ = m[at]
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	memory := Memory{Inode: st.Ino, Bytes: int64(len(base))}
	to, err := os.OpenFile(filepath.Join(t.TempDir(), "copy"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	roomy := NewBuffer(64 << 20)
	if _, err := TakeChanged(t.Context(), os.Getpid(), memory, to, roomy); err == nil {
		t.Error("an empty file was taken for a copy of the memory")
	}
	if _, err := to.Write(base); err != nil {
		t.Fatal(err)
	}
	for _, buffer := range []*Buffer{roomy, NewBuffer(blockBytes), roomy, NewBuffer(0)} {
		if _, err := to.WriteAt(base, 0); err != nil {
			t.Fatal(err)
		}
		taken, err := TakeChanged(t.Context(), os.Getpid(), memory, to, buffer)
		if err != nil {
			t.Fatal(err)
		}
		if held := buffer.inUse(); held > buffer.limit || held == 0 && buffer.limit > 0 {
			t.Errorf("%d bytes are held of at most %d", held, buffer.limit)
		}
		got := make([]byte, len(want))
		if buffer == roomy {
			copy(m, "too late") // the machine goes on
			if _, err := to.ReadAt(got, 0); err != nil || !bytes.Equal(got, base) {
				t.Errorf("the file was written to before its time (%v)", err)
			}
		}
		content, err := taken.Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		parts := content.Parts
		checkDigest(t, content, to, buffer)
		for at := int64(0); at < int64(len(want)); at += pageBytes {
			differs := !bytes.Equal(want[at:at+pageBytes], base[at:at+pageBytes])
			told := slices.ContainsFunc(parts, func(p seal.Part) bool { return p.Offset <= at && at < p.Offset+p.Bytes })
			if differs && !told {
				t.Errorf("the page at %d was written, and isn't in %v", at, parts)
			}
		}
		for i := 1; i < len(parts); i++ {
			if parts[i-1].Offset+parts[i-1].Bytes >= parts[i].Offset {
				t.Errorf("parts out of order, or that touch: %v", parts)
			}
		}
		copy(m, want[:8])
		if _, err := to.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("with a buffer of %d bytes the copy differs from the memory (%v)", buffer.limit, err)
		}
		if held := buffer.inUse(); held != 0 {
			t.Errorf("%d bytes are held afterwards", held)
		}
	}
	testSparing(t, memory, m, to, base, want)
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, base) {
		t.Errorf("the file itself has changed (%v)", err)
	}
}

// checkDigest compares what was said of the pages with what is in the file. It's said if the buffer had room for all of them, and if it had none it isn't.
func checkDigest(t *testing.T, got seal.Content, f *os.File, b *Buffer) {
	t.Helper()
	want, err := seal.Parts(t.Context(), f.Name(), got.Parts)
	if err != nil {
		t.Fatal(err)
	}
	if b.limit == 0 || b.limit == blockBytes && got.Info == (seal.Info{}) {
		want = seal.Info{}
	}
	if got.Info != want {
		t.Errorf("with a buffer of %d bytes the pages' digest is %v, want %v", b.limit, got.Info, want)
	}
}

// testSparing takes the same over a copy of what was written before: whether pages are held or spilled, none is written before its time, all are then, and nothing is left beside
// the file.
func testSparing(t *testing.T, memory Memory, m []byte, to *os.File, earlier, want []byte) {
	for _, buffer := range []*Buffer{NewBuffer(64 << 20), NewBuffer(blockBytes), NewBuffer(0)} {
		if _, err := to.WriteAt(earlier, 0); err != nil {
			t.Fatal(err)
		}
		taken, err := TakeChanged(t.Context(), os.Getpid(), memory, To(to, true), buffer)
		if err != nil {
			t.Fatal(err)
		}
		copy(m, "too late") // the machine goes on
		got := make([]byte, len(want))
		if _, err := to.ReadAt(got, 0); err != nil || !bytes.Equal(got, earlier) {
			t.Errorf("with a buffer of %d bytes the file was written to before its time (%v)", buffer.limit, err)
		}
		content, err := taken.Write(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkDigest(t, content, to, buffer)
		copy(m, want[:8])
		if _, err := to.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("with a buffer of %d bytes the copy of what was saved before differs from the memory (%v)", buffer.limit, err)
		}
		if left, err := os.ReadDir(filepath.Dir(to.Name())); err != nil || len(left) != 1 {
			t.Errorf("beside it are %v, %v", left, err)
		}
	}
}

// What isn't to be written any more is freed.
func TestTakenPagesAreFreed(t *testing.T) {
	buffer := NewBuffer(4 * blockBytes)
	to, err := os.OpenFile(filepath.Join(t.TempDir(), "memory"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if err := to.Truncate(1 << 20); err != nil {
		t.Fatal(err)
	}
	m, err := unix.Mmap(int(to.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	for at := 0; at < len(m); at += pageBytes {
		m[at] = 1
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(to.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	memory := Memory{Inode: st.Ino, Bytes: 1 << 20}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if taken, err := TakeChanged(over, os.Getpid(), memory, to, buffer); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v, want what ended the context", taken, err)
	}
	taken, err := TakeChanged(t.Context(), os.Getpid(), memory, to, buffer)
	if err != nil || buffer.inUse() == 0 {
		t.Fatalf("%v, %d bytes are held", err, buffer.inUse())
	}
	if _, err := taken.Write(over); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want what ended the context", err)
	}
	if held := buffer.inUse(); held != 0 {
		t.Errorf("%d bytes are held afterwards", held)
	}
}

// inUse is what saves hold.
func (b *Buffer) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// FuzzParseMapping: a VMM that was taken over chooses the names of what it maps.
func FuzzParseMapping(f *testing.F) {
	f.Add("7f0000000000-7f0000100000 rw-p 00000000 00:1b 42                         /vm/memory")
	f.Add("a-b rw-p")
	f.Fuzz(func(t *testing.T, line string) {
		if m, ok := parseMapping(line); ok && m.end <= m.start {
			t.Errorf("%q is a mapping from %#x to %#x", line, m.start, m.end)
		}
	})
}
