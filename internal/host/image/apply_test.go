package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestLayersOnTopOfEachOther(t *testing.T) {
	for name, test := range map[string]struct {
		layers [][]item
		want   map[string]string
	}{
		"a file replaces a file": {
			[][]item{{file("a", "1")}, {file("a", "2")}},
			map[string]string{"a": "2"},
		},
		"a file replaces a directory": {
			[][]item{{folder("a"), file("a/b", "1")}, {file("a", "2")}},
			map[string]string{"a": "2"},
		},
		"a directory replaces a file": {
			[][]item{{file("a", "1")}, {folder("a"), file("a/b", "2")}},
			map[string]string{"a": "dir", "a/b": "2"},
		},
		"a directory replaces a link to one": {
			[][]item{{folder("b"), file("b/c", "1"), symlink("a", "b")}, {folder("a"), file("a/d", "2")}},
			map[string]string{"a": "dir", "a/d": "2", "b": "dir", "b/c": "1"},
		},
		"a link replaces a directory": {
			[][]item{{folder("a"), file("a/b", "1")}, {symlink("a", "c")}},
			map[string]string{"a": "-> c"},
		},
		"a directory keeps what it has": {
			[][]item{{folder("a"), file("a/b", "1")}, {folder("a"), file("a/c", "2")}},
			map[string]string{"a": "dir", "a/b": "1", "a/c": "2"},
		},
		"a file isn't written through a link": {
			[][]item{{file("a", "1"), symlink("b", "a")}, {file("b", "2")}},
			map[string]string{"a": "1", "b": "2"},
		},
		"directories that nobody mentions": {
			[][]item{{file("a/b/c", "1")}},
			map[string]string{"a": "dir", "a/b": "dir", "a/b/c": "1"},
		},
		"names with dots, slashes and an absolute one": {
			[][]item{{folder("./"), file("./a", "1"), file("//b", "2"), folder("c/."), file("c/./d", "3"), file("/e", "4")}},
			map[string]string{"a": "1", "b": "2", "c": "dir", "c/d": "3", "e": "4"},
		},
		"through an absolute link, which begins at the tree's root": {
			[][]item{{folder("usr/lib"), symlink("lib", "/usr/lib")}, {file("lib/a", "1")}},
			map[string]string{"usr": "dir", "usr/lib": "dir", "usr/lib/a": "1", "lib": "-> /usr/lib"},
		},
		"through a link to what isn't there yet": {
			[][]item{{symlink("lib", "usr/lib"), file("lib/a", "1")}},
			map[string]string{"usr": "dir", "usr/lib": "dir", "usr/lib/a": "1", "lib": "-> usr/lib"},
		},
		"through a link with dots": {
			[][]item{{folder("x/y"), symlink("x/z", "../w"), file("x/z/a", "1")}},
			map[string]string{"x": "dir", "x/y": "dir", "x/z": "-> ../w", "w": "dir", "w/a": "1"},
		},
		"whiteouts": {
			[][]item{{file("a", "1"), folder("b/c"), file("b/c/d", "1"), file("b/e", "1")}, {file(".wh.a", ""), file("b/.wh.c", ""), file(".wh.never", "")}},
			map[string]string{"b": "dir", "b/e": "1"},
		},
		"a whiteout leaves what its own layer brings, before or after": {
			[][]item{{file("a", "1"), file("b", "1")}, {file("a", "2"), file(".wh.a", ""), file(".wh.b", ""), file("b", "2")}},
			map[string]string{"a": "2", "b": "2"},
		},
		"a whiteout of a directory that its own layer brings too": {
			[][]item{{file("a/b", "1")}, {file("a/c", "2"), file(".wh.a", "")}},
			map[string]string{"a": "dir", "a/c": "2"},
		},
		"opaque": {
			[][]item{
				{file("a/b", "1"), file("a/c/d", "1"), file("e", "1")},
				{folder("a"), file("a/c/new", "2"), file("a/.wh..wh..opq", ""), file("a/f", "2")},
			},
			map[string]string{"a": "dir", "a/c": "dir", "a/c/new": "2", "a/f": "2", "e": "1"},
		},
		"opaque at the root": {
			[][]item{{file("a/b", "1")}, {file(".wh..wh..opq", ""), file("c", "2")}},
			map[string]string{"c": "2"},
		},
		"a union file system's own names": {
			[][]item{{folder(".wh..wh.plnk"), file(".wh..wh.aufs", "")}},
			map[string]string{},
		},
		"whiteout and link": {
			[][]item{{file("a", "1"), symlink("b", "a")}, {file(".wh.b", "")}},
			map[string]string{"a": "1"},
		},
		"hard links": {
			[][]item{{file("a", "1"), hardlink("b", "a"), hardlink("./c", "/a")}, {hardlink("d", "b"), file(".wh.a", "")}},
			map[string]string{"b": "1", "c": "1", "d": "1"},
		},
		"a hard link to itself, and one that's there": {
			[][]item{{file("a", "1"), hardlink("a", "a"), hardlink("b", "a"), hardlink("b", "a")}},
			map[string]string{"a": "1", "b": "1"},
		},
		"a hard link to a symbolic one": {
			[][]item{{symlink("a", "nowhere"), hardlink("b", "a")}},
			map[string]string{"a": "-> nowhere", "b": "-> nowhere"},
		},
		"a hard link through a link": {
			[][]item{{file("usr/a", "1"), symlink("u", "/usr"), hardlink("b", "u/a")}},
			map[string]string{"usr": "dir", "usr/a": "1", "u": "-> /usr", "b": "1"},
		},
		"devices and pipes": {
			[][]item{{
				{name: "null", kind: tar.TypeChar, mode: 0o666, major: 1, minor: 3}, {name: "sda", kind: tar.TypeBlock, mode: 0o660, major: 8},
				{name: "pipe", kind: tar.TypeFifo, mode: 0o600},
			}},
			map[string]string{"null": "20000 1:3", "sda": "60000 8:0", "pipe": "10000 0:0"},
		},
		"the same name twice, of every kind": {
			[][]item{{file("a", "1"), folder("a"), file("a/b", "2"), symlink("a", "c"), hardlink("d", "a"), file("a", "3"), symlink("d", "a"), file("d", "4")}},
			map[string]string{"a": "3", "d": "4"},
		},
		"a file over one of two hard links": {
			[][]item{{file("a", "1"), hardlink("b", "a"), file("b", "2")}, {hardlink("c", "a"), file("a", "3")}},
			map[string]string{"a": "3", "b": "2", "c": "1"},
		},
		"a whiteout through a link": {
			[][]item{{file("usr/a", "1"), symlink("u", "/usr")}, {file("u/.wh.a", "")}},
			map[string]string{"usr": "dir", "u": "-> /usr"},
		},
		"whiteouts as other kinds than files": {
			[][]item{{file("a", "1"), file("b", "1"), file("c", "1")}, {symlink(".wh.a", "../../outside"), hardlink(".wh.b", "c"), folder(".wh.c")}},
			map[string]string{},
		},
		"a whiteout of a whiteout, and one of a directory's own": {
			[][]item{{file("a/b", "1"), file("c", "1")}, {file(".wh..wh.c", ""), file("a/.wh..wh..opq", ""), file("a/.wh.a", "")}},
			map[string]string{"a": "dir", "c": "1"},
		},
		"an opaque link, which is no directory": {
			[][]item{{folder("d"), file("d/x", "1"), symlink("l", "d")}, {file("l/.wh..wh..opq", "")}},
			map[string]string{"d": "dir", "l": "-> d"},
		},
		"a file written where a device was": {
			[][]item{{{name: "null", kind: tar.TypeChar, mode: 0o666, major: 1, minor: 3}}, {file("null", "1"), hardlink("other", "null")}},
			map[string]string{"null": "1", "other": "1"},
		},
		"names that aren't text": {
			[][]item{{file("\xff\xfe", "1"), file(strings.Repeat("n", 255), "2")}},
			map[string]string{"\xff\xfe": "1", strings.Repeat("n", 255): "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, root := newTree(t, DefaultLimits)
			var layers [][]byte
			for _, l := range test.layers {
				layers = append(layers, pack(t, l...))
			}
			if err := applyAll(t, tree, layers...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, listing(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	long := strings.Repeat("x/", maxName/2) + "xx"
	deep := strings.Repeat("d/", maxDepth+1)
	chain := []item{folder("l")}
	for n := range maxLinks + 1 {
		chain = append(chain, symlink("l/"+strings.Repeat("a", n+1), "/l/"+strings.Repeat("a", n+2)))
	}
	loop := []item{symlink("a", "b"), symlink("b", "a"), file("a/c", "1")}
	for name, test := range map[string]struct {
		items []item
		entry string
		why   error
	}{
		"climbing name":                 {[]item{file("../evil", "1")}, "../evil", ErrEscape},
		"climbing name inside":          {[]item{file("a/../../evil", "1")}, "a/../../evil", ErrEscape},
		"absolute climbing name":        {[]item{file("/../evil", "1")}, "/../evil", ErrEscape},
		"climbing directory":            {[]item{folder("..")}, "..", ErrEscape},
		"climbing link":                 {[]item{symlink("a", "../outside")}, "a", ErrEscape},
		"climbing link deeper":          {[]item{symlink("a/b", "../../outside")}, "a/b", ErrEscape},
		"absolute climbing link":        {[]item{symlink("a", "/../outside")}, "a", ErrEscape},
		"link that climbs after all":    {[]item{symlink("a/b/up", "/a"), symlink("a/b/up/c", "../.."), file("a/b/up/c/x", "1")}, "a/b/up/c/x", ErrEscape},
		"hard link out":                 {[]item{hardlink("a", "../outside")}, "a", ErrEscape},
		"hard link out, absolute":       {[]item{hardlink("a", "/../outside")}, "a", ErrEscape},
		"hard link through a link out":  {[]item{folder("d"), symlink("d/up", "/"), symlink("d/up2", "up/.."), hardlink("a", "d/up2/outside")}, "a", ErrEscape},
		"written through a link out":    {[]item{folder("a/b"), symlink("a/b/l", "../.."), symlink("m", "a/b/l/.."), file("m/outside", "2")}, "m/outside", ErrEscape},
		"a whiteout through a link out": {[]item{folder("a"), symlink("a/l", ".."), symlink("m", "a/l/.."), file("m/.wh.outside", "")}, "m/.wh.outside", ErrEscape},
		"a link at its longest":         {[]item{symlink("a", strings.Repeat("x", maxName))}, "a", ErrTooLarge},
		"hard link to nothing":          {[]item{hardlink("a", "b")}, "a", ErrMalformed},
		"hard link to a directory":      {[]item{folder("b"), hardlink("a", "b")}, "a", ErrMalformed},
		"hard link to the root":         {[]item{hardlink("a", "/")}, "a", ErrMalformed},
		"link to nothing":               {[]item{symlink("a", "")}, "a", ErrMalformed},
		"loop of links":                 {loop, "a/c", ErrTooLarge},
		"long chain of links":           {append(chain, file("l/a/x", "1")), "l/a/x", ErrTooLarge},
		"below a file":                  {[]item{file("a", "1"), file("a/b", "2")}, "a/b", ErrMalformed},
		"the root as a file":            {[]item{file(".", "")}, ".", ErrMalformed},
		"whiteout of the directory":     {[]item{file("a/.wh..", "")}, "a/.wh..", ErrMalformed},
		"whiteout of the one above":     {[]item{file("a/.wh...", "")}, "a/.wh...", ErrMalformed},
		"whiteout of nothing":           {[]item{file(".wh.", "")}, ".wh.", ErrMalformed},
		"whiteout above":                {[]item{file("../.wh.outside", "")}, "../.wh.outside", ErrEscape},
		"long name":                     {[]item{file(long, "1")}, clip(long), ErrTooLarge},
		"deep name":                     {[]item{file(deep+"x", "1")}, clip(deep + "x"), ErrTooLarge},
		"long part":                     {[]item{file(strings.Repeat("n", 256), "1")}, clip(strings.Repeat("n", 256)), ErrTooLarge},
		"unknown kind":                  {[]item{{name: "a", kind: 'Q'}}, "a", ErrMalformed},
		"device beyond the kernel's":    {[]item{{name: "a", kind: tar.TypeChar, major: 1 << 13}}, "a", ErrMalformed},
		"owner that means nobody":       {[]item{{name: "a", kind: tar.TypeReg, uid: 1<<32 - 1}}, "a", ErrMalformed},
		"too many extended attributes":  {[]item{{name: "a", kind: tar.TypeReg, xattrs: many(maxXattrs + 1)}}, "a", ErrTooLarge},
		"too large extended attributes": {[]item{{name: "a", kind: tar.TypeReg, xattrs: map[string]string{"user.a": strings.Repeat("x", maxXattrBytes)}}}, "a", ErrTooLarge},
		"wrong capability":              {[]item{{name: "a", kind: tar.TypeReg, xattrs: map[string]string{"security.capability": "nonsense"}}}, "a", ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := newTree(t, DefaultLimits)
			refused(t, applyAll(t, tree, pack(t, test.items...)), test.entry, test.why)
		})
	}
}

func many(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out["user."+strings.Repeat("a", i+1)[:min(i+1, 8)]+string(rune('a'+i%26))+string(rune('a'+i/26))] = "1"
	}
	return out
}

func TestLimitsNameTheEntry(t *testing.T) {
	for name, test := range map[string]struct {
		limits Limits
		layers [][]byte
		entry  string
	}{
		"bytes":                     {Limits{Bytes: 10, Entries: 9}, [][]byte{pack(t, file("a", "123456"), file("b", "123456"))}, "b"},
		"bytes of replaced files":   {Limits{Bytes: 10, Entries: 9}, [][]byte{pack(t, file("a", "123456")), pack(t, file("a", "123456"))}, "a"},
		"entries":                   {Limits{Bytes: 10, Entries: 2}, [][]byte{pack(t, file("a", ""), file("b", "")), pack(t, file("c", ""))}, "c"},
		"headers that say nothing":  {Limits{Bytes: 10, Entries: 9}, [][]byte{gzipped(t, bytes.Repeat([]byte{0}, streamAllowance+1<<20))}, ""},
		"a file that's nearly none": {Limits{Bytes: 2 << 30, Entries: 9, Packed: 4 << 20}, [][]byte{zstded(t, pack(t, file("bomb", strings.Repeat("\x00", 5<<20))))}, "bomb"},
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := newTree(t, test.limits)
			refused(t, applyAll(t, tree, test.layers...), test.entry, ErrTooLarge)
		})
	}
}

// The file is a hole of eight gigabytes: a few kilobytes of an archive.
func TestSparseFileIsItsWholeSize(t *testing.T) {
	raw := pack(t, file("hole", ""))
	header := raw[len(raw)-3*512:][:512] // before the two blocks of the end
	copy(header[156:], "S")
	copy(header[257:], "ustar  \x00")
	copy(header[386:], "00000000000\x00000000000000\x00")
	copy(header[483:], "77777777777\x00")
	sum := 0
	copy(header[148:], "        ")
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], []byte(strings.Repeat("0", 6-len(octal(sum)))+octal(sum)+"\x00 "))
	tree, _ := newTree(t, Limits{Bytes: 1 << 20, Entries: 9})
	refused(t, applyAll(t, tree, raw), "hole", ErrTooLarge)
}

// TestAbsurdHeadersAreRefused has headers that no archiver writes, around what GNU and PAX add to them.
func TestAbsurdHeadersAreRefused(t *testing.T) {
	for name, change := range map[string]func(header []byte){
		"a negative size":      func(h []byte) { copy(h[124:136], "-0000000001\x00") },
		"a size beyond 64 bit": func(h []byte) { copy(h[124:136], "\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") },
		"a size that is text":  func(h []byte) { copy(h[124:136], "999999999999") },
		"a mode that is text":  func(h []byte) { copy(h[100:108], "rwxrwxrw") },
		"a name of 4 GiB": func(h []byte) {
			copy(h[124:136], "40000000000\x00")
			h[156] = 'L'
		},
		"records of 4 GiB": func(h []byte) {
			copy(h[124:136], "40000000000\x00")
			h[156] = 'x'
		},
		"records that lie about their length": func(h []byte) {
			copy(h[124:136], "00000000020\x00")
			h[156] = 'x'
		},
	} {
		t.Run(name, func(t *testing.T) {
			raw := pack(t, file("a", "99999999 path=b\n"))
			header := raw[len(raw)-4*512:][:512] // before its content and the two blocks of the end
			change(header)
			copy(header[148:156], "        ")
			sum := 0
			for _, b := range header {
				sum += int(b)
			}
			copy(header[148:156], []byte(strings.Repeat("0", 6-len(octal(sum)))+octal(sum)+"\x00 "))
			tree, root := newTree(t, Limits{Bytes: 1 << 20, Entries: 9})
			err := applyAll(t, tree, raw)
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			if got := listing(t, root); len(got) > 0 {
				t.Errorf("it left %v", got)
			}
		})
	}
}

// TestPackedTwiceIsNoArchive: what is inside of a compressed stream isn't decompressed again, so bombs don't nest.
func TestPackedTwiceIsNoArchive(t *testing.T) {
	inner := gzipped(t, pack(t, file("a", "1")))
	for name, b := range map[string][]byte{"gzip": gzipped(t, inner), "zstd": zstded(t, inner), "zstd in gzip": gzipped(t, zstded(t, inner))} {
		t.Run(name, func(t *testing.T) {
			tree, _ := newTree(t, DefaultLimits)
			if err := applyAll(t, tree, b); !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func octal(n int) string {
	s := ""
	for ; n > 0; n /= 8 {
		s = string(rune('0'+n%8)) + s
	}
	return s
}

func TestBrokenStreamsAreRefused(t *testing.T) {
	good := pack(t, file("a", strings.Repeat("text ", 1000)))
	for name, b := range map[string][]byte{
		"cut archive":   good[:700],
		"cut gzip":      gzipped(t, good)[:60],
		"cut zstd":      zstded(t, good)[:30],
		"no archive":    []byte(strings.Repeat("no archive ", 100)),
		"broken header": append([]byte{0x1f, 0x8b, 9}, good...),
	} {
		t.Run(name, func(t *testing.T) {
			tree, _ := newTree(t, DefaultLimits)
			if err := applyAll(t, tree, b); err == nil || !strings.Contains(err.Error(), ErrMalformed.Error()) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAttributesAreKept(t *testing.T) {
	at := time.Unix(1234567890, 0)
	capability := "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	xattrs := map[string]string{"security.capability": capability, "user.note": "n", "trusted.x": "left out", "security.selinux": "left out"}
	tree, root := newTree(t, DefaultLimits)
	err := applyAll(t, tree, pack(t,
		item{name: "d", kind: tar.TypeDir, mode: 0o1777, uid: 7, gid: 8, at: at, xattrs: map[string]string{"user.note": "d"}},
		item{name: "d/suid", kind: tar.TypeReg, body: "x", mode: 0o6755, uid: 1000, gid: 4_000_000_000, at: at, xattrs: xattrs},
		item{name: "d/link", kind: tar.TypeSymlink, link: "suid", uid: 5, gid: 6, at: at},
		item{name: "d/fifo", kind: tar.TypeFifo, mode: 0o640, uid: 5, gid: 6, at: at},
		item{name: "d/closed", kind: tar.TypeDir, mode: 0, at: at}, item{name: "d/closed/f", kind: tar.TypeReg, mode: 0, at: time.Unix(-5, 0)},
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		mode, uid, gid uint32
		at             int64
	}{
		"d":          {unix.S_IFDIR | 0o1777, 7, 8, at.Unix()},
		"d/suid":     {unix.S_IFREG | 0o6755, 1000, 4_000_000_000, at.Unix()},
		"d/link":     {unix.S_IFLNK | 0o777, 5, 6, at.Unix()},
		"d/fifo":     {unix.S_IFIFO | 0o640, 5, 6, at.Unix()},
		"d/closed":   {unix.S_IFDIR, 0, 0, at.Unix()},
		"d/closed/f": {unix.S_IFREG, 0, 0, 0},
	} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(root, name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode != want.mode || st.Uid != want.uid || st.Gid != want.gid || st.Mtim.Sec != want.at {
			t.Errorf("%s is %o %d:%d at %d, want %v", name, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, want)
		}
	}
	buf := make([]byte, 256)
	if n, err := unix.Lgetxattr(filepath.Join(root, "d/suid"), "security.capability", buf); err != nil || string(buf[:n]) != capability {
		t.Errorf("the capability is %q, %v", buf[:max(n, 0)], err)
	}
	n, err := unix.Llistxattr(filepath.Join(root, "d/suid"), buf)
	if err != nil || strings.Contains(string(buf[:n]), "trusted.") || !strings.Contains(string(buf[:n]), "user.note") {
		t.Errorf("attributes %q, %v", buf[:n], err)
	}
}

func TestMeasureCountsLinkedFilesOnce(t *testing.T) {
	tree, _ := newTree(t, DefaultLimits)
	if err := applyAll(t, tree, pack(t, file("d/a", strings.Repeat("x", block+1)), hardlink("b", "d/a"), symlink("c", "d"))); err != nil {
		t.Fatal(err)
	}
	s, err := tree.Measure()
	if want := (Size{Bytes: 2*block + block + 2*block, Inodes: 4}); err != nil || s != want { // file, link, two directories
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
}

func TestPlainArchiveHasNoWhiteouts(t *testing.T) {
	for name, packed := range map[string]func(testing.TB, []byte) []byte{
		"plain": func(_ testing.TB, b []byte) []byte { return b }, "gzip": gzipped, "zstd": zstded,
	} {
		t.Run(name, func(t *testing.T) {
			tree, root := newTree(t, DefaultLimits)
			b := packed(t, pack(t, file("a", "1"), file(".wh.a", "2")))
			if err := tree.ApplyArchive(t.Context(), bytes.NewReader(b)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{"a": "1", ".wh.a": "2"}, listing(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	before := descriptors(t)
	tree, _ := newTree(t, DefaultLimits)
	applyAll(t, tree, pack(t, file("a/b/c", "1"), symlink("a/l", "b/../.."), file("a/l/x", "1"), hardlink("y", "a/b/c"), file("a/b/c/d", "")))
	tree.Close()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, were %d", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
