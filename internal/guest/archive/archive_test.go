package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	space "github.com/space-platform/space"
)

// pack packs a directory.
func pack(t testing.TB, dir string) []byte {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	if err := Pack(context.Background(), f, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t testing.TB, dir string, r io.Reader) (Result, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return Unpack(context.Background(), root, r, nil)
}

// describe says all about a tree that an archive keeps.
func describe(t testing.TB, dir string) map[string]string {
	t.Helper()
	out, inodes := map[string]string{}, map[uint64]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		text := fmt.Sprintf("%o %d.%09d", st.Mode, st.Mtim.Sec, st.Mtim.Nsec)
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			text += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(b))
			if first, ok := inodes[st.Ino]; ok {
				text += " = " + first
			} else {
				inodes[st.Ino] = name
			}
		}
		out[name] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// grow makes a random tree. Modes let its owner in, so that the test needn't be root.
func grow(t *rapid.T, dir string) {
	var dirs, all []string
	dirs = append(dirs, ".")
	var names []string
	for i := range rapid.IntRange(0, 25).Draw(t, "nodes") {
		base := rapid.SampledFrom([]string{"a", "ä ö", ".hidden", "-x", "\xff\xfe", strings.Repeat("n", 240), "new\nline", "back\\slash", "..."}).Draw(t, "name")
		name := filepath.Join(rapid.SampledFrom(dirs).Draw(t, "in"), fmt.Sprint(base, i))
		p := filepath.Join(dir, name)
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			must(os.Mkdir(p, 0o755))
			dirs = append(dirs, name)
		case 1, 2:
			size := rapid.SampledFrom([]int{0, 1, 511, 512, 513, 40_000}).Draw(t, "size")
			must(os.WriteFile(p, bytes.Repeat([]byte{byte(i)}, size), 0o644))
			names = append(names, name)
		case 3:
			target := rapid.SampledFrom([]string{"/etc/passwd", "..", "nowhere", strings.Repeat("t/", 150), "ä\xff"}).Draw(t, "target")
			must(os.Symlink(target, p))
		case 4:
			if len(names) > 0 {
				must(os.Link(filepath.Join(dir, rapid.SampledFrom(names).Draw(t, "of")), p))
			}
			continue
		}
		all = append(all, name)
	}
	for i := len(all) - 1; i >= 0; i-- {
		p := filepath.Join(dir, all[i])
		info, err := os.Lstat(p)
		must(err)
		if info.Mode()&fs.ModeSymlink == 0 {
			mode := rapid.SampledFrom([]uint32{0o644, 0o755, 0o4711, 0o2750, 0o1777, 0o700}).Draw(t, "mode") | 0o600
			if info.IsDir() {
				mode |= 0o700
			}
			must(unix.Chmod(p, mode))
		}
		ts := unix.NsecToTimespec(rapid.Int64Range(0, 4e18).Draw(t, "time"))
		must(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// TestRoundTrip: what is packed and unpacked is the same, and unpacking it again over itself changes nothing.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp("/dev/shm", "archive")
		must(err)
		defer os.RemoveAll(base)
		from, to := filepath.Join(base, "from"), filepath.Join(base, "to")
		must(errors.Join(os.Mkdir(from, 0o755), os.Mkdir(to, 0o755)))
		grow(rt, from)
		packed := pack(t, from)
		want := describe(t, from)
		for range 2 {
			result, err := unpack(t, to, bytes.NewReader(packed))
			if err != nil || result.Entries != uint64(len(want)) {
				rt.Fatalf("%v, %v", result, err)
			}
			if got := describe(t, to); !reflect.DeepEqual(got, want) {
				rt.Fatalf("got\n%q\nwant\n%q", got, want)
			}
		}
	})
}

// TestOthersReadAndWriteOurArchives: GNU tar understands them, and we its.
func TestOthersReadAndWriteOurArchives(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must(os.Mkdir(filepath.Join(from, "d"), 0o750))
	must(os.WriteFile(filepath.Join(from, "d/f"), []byte("content"), 0o640))
	must(os.Symlink("f", filepath.Join(from, "d/l")))
	must(os.Link(filepath.Join(from, "d/f"), filepath.Join(from, "h")))
	gnuTar(t, bytes.NewReader(pack(t, from)), "-x", "-p", "-C", to)
	if got, want := describe(t, to), describe(t, from); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	for _, format := range []string{"gnu", "pax", "ustar"} {
		third := t.TempDir()
		packed := gnuTar(t, nil, "-c", "--format="+format, "-C", from, ".")
		if _, err := unpack(t, third, bytes.NewReader(packed)); err != nil {
			t.Errorf("%s: %v", format, err)
		}
		if b, err := os.ReadFile(filepath.Join(third, "h")); string(b) != "content" {
			t.Errorf("%s: %q, %v", format, b, err)
		}
	}
}

// entry is one of a hostile archive.
type entry struct {
	tar.Header
	body string
}

func build(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.body))
		if e.Mode == 0 {
			e.Mode = 0o755
		}
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, body string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name}, body}
}
func dir(name string) entry { return entry{tar.Header{Typeflag: tar.TypeDir, Name: name}, ""} }
func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}
func hardlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

// TestNothingEscapes: each of these archives wants to write, or link to, what is outside of the directory.
func TestNothingEscapes(t *testing.T) {
	for name, c := range map[string]struct {
		archive []entry
		code    space.Code // "" if it may succeed, harmlessly
	}{
		"absolute":                    {[]entry{file("/tmp/x", "x")}, space.CodeInvalid},
		"above":                       {[]entry{file("../secret", "x")}, space.CodeInvalid},
		"above, later":                {[]entry{file("a/../../secret", "x")}, space.CodeInvalid},
		"above, at the end":           {[]entry{dir("a/..")}, space.CodeInvalid},
		"through a link":              {[]entry{symlink("l", ".."), file("l/secret", "x")}, space.CodeForbidden},
		"through an absolute link":    {[]entry{symlink("l", "/"), file("l/tmp/x", "x")}, space.CodeForbidden},
		"through two links":           {[]entry{dir("d"), symlink("d/up", ".."), symlink("l", "d/up/.."), file("l/secret", "x")}, space.CodeForbidden},
		"through a link over a dir":   {[]entry{dir("d"), symlink("d", ".."), file("d/secret", "x")}, space.CodeForbidden},
		"over a link":                 {[]entry{symlink("l", "../secret"), file("l", "x")}, ""},
		"a dir over a link":           {[]entry{symlink("l", ".."), dir("l"), file("l/x", "x")}, ""},
		"a mode through a link":       {[]entry{dir("d"), file("d/x", ""), symlink("m", ".."), {tar.Header{Typeflag: tar.TypeDir, Name: "m", Mode: 0o777}, ""}}, ""},
		"a hard link above":           {[]entry{hardlink("h", "../secret"), file("h", "x")}, space.CodeInvalid},
		"a hard link, absolute":       {[]entry{hardlink("h", "/etc/passwd")}, space.CodeInvalid},
		"a hard link through a link":  {[]entry{symlink("l", ".."), hardlink("h", "l/secret")}, space.CodeForbidden},
		"a hard link to a link":       {[]entry{symlink("l", "../secret"), hardlink("h", "l"), file("h", "x")}, ""},
		"a hard link to nothing":      {[]entry{hardlink("h", "none")}, space.CodeInvalid},
		"a hard link to a dir":        {[]entry{dir("d"), hardlink("h", "d")}, space.CodeInvalid},
		"a hard link to itself":       {[]entry{file("f", "x"), hardlink("f", "f")}, ""},
		"a device":                    {[]entry{{tar.Header{Typeflag: tar.TypeBlock, Name: "b", Devmajor: 253}, ""}}, space.CodeInvalid},
		"a character device":          {[]entry{{tar.Header{Typeflag: tar.TypeChar, Name: "c", Devmajor: 1, Devminor: 3}, ""}}, space.CodeInvalid},
		"a named pipe":                {[]entry{{tar.Header{Typeflag: tar.TypeFifo, Name: "p"}, ""}}, space.CodeInvalid},
		"an unknown kind":             {[]entry{{tar.Header{Typeflag: 'Z', Name: "z"}, ""}}, space.CodeInvalid},
		"the directory as a file":     {[]entry{file(".", "x")}, space.CodeInvalid},
		"the directory as a link":     {[]entry{symlink("./", "/etc")}, space.CodeInvalid},
		"a long part":                 {[]entry{file(strings.Repeat("x", 256), "")}, space.CodeInvalid},
		"a long name":                 {[]entry{file(strings.Repeat("x/", 2100)+"x", "")}, space.CodeInvalid},
		"a long link":                 {[]entry{symlink("l", strings.Repeat("x", 4096))}, space.CodeInvalid},
		"a link to nothing":           {[]entry{symlink("l", "")}, space.CodeInvalid},
		"a file over a full dir":      {[]entry{file("d/x", ""), file("d", "")}, space.CodeConflict},
		"a file below a file":         {[]entry{file("f", ""), file("f/x", "")}, space.CodeConflict},
		"a dir over a file":           {[]entry{file("f", ""), dir("f"), file("f/x", "")}, ""},
		"a mode for the caller's dir": {[]entry{{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o777}, ""}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			inside, secret := filepath.Join(base, "inside"), filepath.Join(base, "secret")
			must(errors.Join(os.Mkdir(inside, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)))
			before := describe(t, base)
			_, err := unpack(t, inside, bytes.NewReader(build(t, c.archive...)))
			if space.CodeOf(err) != c.code {
				t.Errorf("%v, want code %q", err, c.code)
			}
			if c.code == space.CodeInvalid && err.(*space.Error).Field != "archive" {
				t.Errorf("field %q", err.(*space.Error).Field)
			}
			for p, text := range describe(t, base) {
				if p == "secret" && text != before[p] || p == "inside" && !strings.HasPrefix(text, "40700 ") || !strings.HasPrefix(p, "inside") && p != "secret" {
					t.Errorf("%s is %s, was %q", p, text, before[p])
				}
			}
		})
	}
}

// TestLinksThatWereThere: what somebody has prepared in the directory leads nowhere either.
func TestLinksThatWereThere(t *testing.T) {
	base := t.TempDir()
	inside := filepath.Join(base, "inside")
	must(errors.Join(os.Mkdir(inside, 0o700), os.Symlink("..", filepath.Join(inside, "l")), os.Mkdir(filepath.Join(inside, "real"), 0o700),
		os.Symlink("real", filepath.Join(inside, "in"))))
	if _, err := unpack(t, inside, bytes.NewReader(build(t, file("l/x", "x")))); space.CodeOf(err) != space.CodeForbidden {
		t.Error(err)
	}
	if _, err := unpack(t, inside, bytes.NewReader(build(t, file("in/x", "x")))); err != nil {
		t.Errorf("a link that stays inside: %v", err)
	}
}

func TestBombs(t *testing.T) {
	holes := gnuTarOf(t, func(dir string) {
		f, err := os.Create(filepath.Join(dir, "hole"))
		must(err)
		must(f.Truncate(1 << 40))
		must(f.Close())
	}, "-S")
	if len(holes) > 100_000 {
		t.Fatalf("%d bytes", len(holes))
	}
	to := t.TempDir()
	if _, err := unpack(t, to, bytes.NewReader(holes)); space.CodeOf(err) != space.CodeInvalid {
		t.Errorf("holes: %v", err)
	}
	if info, err := os.Stat(filepath.Join(to, "hole")); err == nil && info.Size() > 1<<20 {
		t.Errorf("%d bytes were written", info.Size())
	}
	root, err := os.OpenRoot(t.TempDir())
	must(err)
	defer root.Close()
	u := newUnpacker(context.Background(), root, &endless{})
	u.entries = 1000
	if err := u.all(); space.CodeOf(err) != space.CodeTooLarge || u.result.Entries != 1001 {
		t.Errorf("many entries: %v, %v", err, u.result)
	}
	u = newUnpacker(context.Background(), root, &endless{})
	u.kept = maxKept - 1000
	if err := u.all(); space.CodeOf(err) != space.CodeTooLarge {
		t.Errorf("many names: %v", err)
	}
}

// endless is an archive of one empty file after the other, always the same.
type endless struct {
	unit []byte
	at   int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.unit == nil {
		var w bytes.Buffer
		must(tar.NewWriter(&w).WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.Repeat("d/", 45), Mode: 0o700}))
		e.unit = w.Bytes()
	}
	n := copy(b, e.unit[e.at:])
	e.at = (e.at + n) % len(e.unit)
	return n, nil
}

func TestDamagedArchives(t *testing.T) {
	whole := build(t, file("f", strings.Repeat("x", 5000)), file("g", "y"))
	for name, b := range map[string][]byte{
		"no tar": bytes.Repeat([]byte("no tar "), 1000), "cut in a file": whole[:3000], "cut in a header": whole[:100],
		"a negative size": func() []byte {
			b := bytes.Clone(whole)
			copy(b[124:136], "-0000000001\x00")
			return b
		}(),
	} {
		if _, err := unpack(t, t.TempDir(), bytes.NewReader(b)); space.CodeOf(err) != space.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r, err := unpack(t, t.TempDir(), bytes.NewReader(nil)); err != nil || r.Entries != 0 {
		t.Errorf("nothing: %v, %v", r, err)
	}
	broken := errors.New("the stream is broken")
	if _, err := unpack(t, t.TempDir(), io.MultiReader(bytes.NewReader(whole[:3000]), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("a broken stream: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestSpecialFilesAreLeftOut(t *testing.T) {
	from := t.TempDir()
	must(errors.Join(syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600), os.WriteFile(filepath.Join(from, "f"), nil, 0o600)))
	to := t.TempDir()
	if _, err := unpack(t, to, bytes.NewReader(pack(t, from))); err != nil {
		t.Fatal(err)
	}
	if got := describe(t, to); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestFileThatShrinksIsAnError(t *testing.T) {
	from := t.TempDir()
	p := filepath.Join(from, "f")
	must(os.WriteFile(p, make([]byte, 1<<20), 0o600))
	f, err := os.Open(from)
	must(err)
	defer f.Close()
	err = Pack(context.Background(), f, writerFunc(func(b []byte) (int, error) {
		os.Truncate(p, 1000)
		return len(b), nil
	}))
	if space.CodeOf(err) != space.CodeConflict {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// FuzzUnpack: nothing outside of the directory changes, whatever the archive.
func FuzzUnpack(f *testing.F) {
	f.Add(build(f, dir("d"), file("d/f", "x"), symlink("l", "../.."), hardlink("h", "d/f"), file("l/y", "")))
	f.Add(build(f, symlink("a", "b"), symlink("b", "a"), file("a/x", "")))
	f.Add(build(f, entry{tar.Header{Typeflag: tar.TypeReg, Name: "pax", Format: tar.FormatPAX, ModTime: time.Unix(1<<40, 5), PAXRecords: map[string]string{"a.b": "c"}}, "x"}))
	base, err := os.MkdirTemp("/dev/shm", "archive")
	must(err)
	f.Cleanup(func() { os.RemoveAll(base) })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		outside, err := os.MkdirTemp(base, "")
		must(err)
		defer os.RemoveAll(outside)
		inside := filepath.Join(outside, "inside")
		must(os.Mkdir(inside, 0o700))
		result, err := unpack(t, inside, bytes.NewReader(b))
		if err != nil && space.CodeOf(err) == space.CodeInternal {
			t.Fatal(err)
		}
		if result.Bytes > uint64(len(b)) {
			t.Fatalf("%d bytes of %d", result.Bytes, len(b))
		}
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
	})
}

// TestOwner unpacks for somebody else: all that the archive names is theirs, with the directories that lead there, set-user-id bits stay, and what was
// there and isn't named keeps its owner.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	dir := t.TempDir()
	must(os.MkdirAll(filepath.Join(dir, "there/named"), 0o755))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "there/named", Typeflag: tar.TypeDir, Mode: 0o750},
		{Name: "there/named/file", Typeflag: tar.TypeReg, Mode: 0o4755},
		{Name: "new/below/file", Typeflag: tar.TypeReg, Mode: 0o600},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "there"},
	} {
		must(w.WriteHeader(&h))
	}
	must(w.Close())
	root, err := os.OpenRoot(dir)
	must(err)
	defer root.Close()
	if _, err := Unpack(t.Context(), root, &b, &Owner{UID: 4711, GID: 4712}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		".": "0:0", "there": "0:0", "there/named": "4711:4712 750", "there/named/file": "4711:4712 4755",
		"new": "4711:4712 755", "new/below": "4711:4712 755", "new/below/file": "4711:4712 600", "link": "4711:4712",
	} {
		var st unix.Stat_t
		must(unix.Lstat(filepath.Join(dir, name), &st))
		got := fmt.Sprintf("%d:%d %o", st.Uid, st.Gid, st.Mode&modeBits)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestErrorNamesThePathOnce has an error of a system call about an entry.
func TestErrorNamesThePathOnce(t *testing.T) {
	dir := t.TempDir()
	must(os.MkdirAll(filepath.Join(dir, "a/b/full"), 0o755))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(w.WriteHeader(&tar.Header{Name: "a/b", Typeflag: tar.TypeReg, Mode: 0o644}))
	must(w.Close())
	_, err := unpack(t, dir, &b)
	want := "unpack " + dir + "/a/b: the directory is not empty"
	var e *space.Error
	if !errors.As(err, &e) || e.Message != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCompressedArchivesAreNamed has what people send in a tar's place.
func TestCompressedArchivesAreNamed(t *testing.T) {
	for name, magic := range compressions {
		_, err := unpack(t, t.TempDir(), strings.NewReader(magic+strings.Repeat("x", 2000)))
		if space.CodeOf(err) != space.CodeInvalid || !strings.Contains(err.Error(), "compressed with "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
