package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// item is an entry of an archive in a test.
type item struct {
	name, link, body string
	kind             byte
	mode             int64
	uid, gid         int
	major, minor     int64
	xattrs           map[string]string
	at               time.Time
	size             int64 // if it isn't the body's
}

func file(name, body string) item {
	return item{name: name, body: body, kind: tar.TypeReg, mode: 0o644}
}
func folder(name string) item { return item{name: name, kind: tar.TypeDir, mode: 0o755} }
func symlink(name, link string) item {
	return item{name: name, link: link, kind: tar.TypeSymlink, mode: 0o777}
}
func hardlink(name, link string) item {
	return item{name: name, link: link, kind: tar.TypeLink, mode: 0o644}
}

// pack writes an archive.
func pack(t testing.TB, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		h := &tar.Header{
			Typeflag: i.kind, Name: i.name, Linkname: i.link, Mode: i.mode, Uid: i.uid, Gid: i.gid, Size: int64(len(i.body)), ModTime: i.at,
			Devmajor: i.major, Devminor: i.minor, Format: tar.FormatPAX,
		}
		if i.at.IsZero() {
			h.ModTime = time.Unix(1e9, 0)
		}
		for name, value := range i.xattrs {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[xattrRecord+name] = value
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

// tree is a tree in a new directory that another directory protects: what isn't the tree's must stay as it is.
func newTree(t testing.TB, limits Limits) (*Tree, string) {
	t.Helper()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "outside"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(outside, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	tree, err := OpenTree(root, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tree.Close()
		entries, err := os.ReadDir(outside)
		b, rerr := os.ReadFile(filepath.Join(outside, "outside"))
		if err != nil || rerr != nil || len(entries) != 2 || string(b) != "kept" {
			t.Errorf("what was outside has changed: %v, %q, %v, %v", entries, b, err, rerr)
		}
	})
	return tree, root
}

// applyAll applies layers without their digests.
func applyAll(t testing.TB, tree *Tree, layers ...[]byte) error {
	t.Helper()
	for n, b := range layers {
		l := &layer{tree: tree, root: tree.rootDir(), number: n + 1, whiteouts: true, brought: newSeen(), input: &counter{from: bytes.NewReader(b)}}
		if err := l.wrap(l.applyPacked(t.Context(), discardHash{})); err != nil {
			return err
		}
	}
	return tree.finish()
}

type discardHash struct{}

func (discardHash) Write(b []byte) (int, error) { return len(b), nil }
func (discardHash) Sum([]byte) []byte           { return nil }
func (discardHash) Reset()                      {}
func (discardHash) Size() int                   { return 0 }
func (discardHash) BlockSize() int              { return 1 }

// listing describes each file of a tree in a line: its path, and a word that says what it is.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		out[strings.TrimPrefix(path, root+"/")] = describe(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func describe(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "dir"
	case unix.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			t.Fatal(err)
		}
		return "-> " + to
	case unix.S_IFREG:
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return fmt.Sprintf("%o %d:%d", st.Mode&unix.S_IFMT, unix.Major(st.Rdev), unix.Minor(st.Rdev))
}

// refused checks that an error names an entry and a reason.
func refused(t *testing.T, err error, entry string, why error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Entry != entry || !errors.Is(err, why) {
		t.Errorf("got %v, want entry %q: %v", err, entry, why)
	}
}
