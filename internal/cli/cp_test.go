package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// remoteFiles is a sandbox's files and links, by path; archive is what any of its directories has.
type remoteFiles struct {
	files   map[string]gen.FileEntry
	content map[string]string
	archive []byte
	written []string // the queries of uploads
	got     []byte   // the last upload
}

func (f *remoteFiles) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("path")
	what := path.Base(r.URL.Path)
	switch e, there := f.files[name]; {
	case r.Method == http.MethodPut:
		f.written = append(f.written, r.URL.RawQuery)
		f.got, _ = io.ReadAll(r.Body)
		if what == "archive" {
			answer(w, 200, gen.ArchiveUnpacked{})
			return
		}
		answer(w, 200, gen.FileEntry{Path: name, Type: "file", ModifiedAt: epoch})
	case what == "archive":
		w.Write(f.archive)
	case !there:
		refuse(w, 404, "not_found", "there is no "+name)
	case what == "stat":
		answer(w, 200, e)
	default:
		for e.Target != nil {
			e = f.files[*e.Target]
		}
		io.WriteString(w, f.content[e.Path])
	}
}

func (f *remoteFiles) file(name, mode, content string) {
	f.files[name] = gen.FileEntry{Path: name, Type: "file", Mode: mode, Size: int64(len(content)), ModifiedAt: epoch}
	f.content[name] = content
}

func (f *remoteFiles) link(name, target string) {
	f.files[name] = gen.FileEntry{Path: name, Type: "symlink", Mode: "0777", Target: &target, ModifiedAt: epoch}
}

// copies returns a sandbox's files and a copier for them.
func copies(t *testing.T) (*remoteFiles, copier) {
	f := &remoteFiles{files: map[string]gen.FileEntry{}, content: map[string]string{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	p, err := client.NewPlane(s.URL, "sbx_1", "spacesbx_1")
	if err != nil {
		t.Fatal(err)
	}
	progress := startProgress(io.Discard, "copying")
	t.Cleanup(progress.end)
	old := unix.Umask(0o022)
	t.Cleanup(func() { unix.Umask(old) })
	return f, copier{plane: p, progress: progress, out: io.Discard}
}

// has compares a local file with what it should be.
func has(t *testing.T, name, content string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
		return
	}
	info, err := os.Stat(name)
	if err != nil || string(b) != content || info.Mode() != mode {
		t.Errorf("%s: %q with mode %v, want %q with %v: %v", filepath.Base(name), b, info.Mode(), content, mode, err)
	}
}

func TestDownloadKeepsTheMode(t *testing.T) {
	f, c := copies(t)
	f.file("/run.sh", "4775", "new")
	f.file("/key", "0600", "secret")
	f.link("/bin", "/run.sh")
	f.link("/nowhere", "/none")
	dir := t.TempDir()
	for _, row := range []struct {
		src, dst, content string
		mode              fs.FileMode
	}{
		{"/run.sh", "run.sh", "new", 0o755}, {"/key", "key", "secret", 0o600}, {"/key", "run.sh", "secret", 0o600}, {"/bin", "program", "new", 0o755},
	} {
		if err := c.download(t.Context(), row.src, filepath.Join(dir, row.dst)); err != nil {
			t.Errorf("%s: %v", row.src, err)
			continue
		}
		has(t, filepath.Join(dir, row.dst), row.content, row.mode)
	}
	if err := c.download(t.Context(), "/bin", dir); err != nil { // a link's copy has the link's name
		t.Error(err)
	}
	has(t, filepath.Join(dir, "bin"), "new", 0o755)
	if names, err := os.ReadDir(dir); err != nil || len(names) != 4 {
		t.Errorf("%v, %v: want the four files and nothing that was on the way", names, err)
	}
}

// TestDownloadLeavesWhatIsNoFile: a device, a pipe and a link stay what they are.
func TestDownloadLeavesWhatIsNoFile(t *testing.T) {
	f, c := copies(t)
	f.file("/f", "0644", "new")
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(in("target"), []byte("older and longer"), 0o640))
	must(os.Symlink("target", in("link")))
	must(c.download(t.Context(), "/f", in("link")))
	if got, err := os.Readlink(in("link")); got != "target" {
		t.Errorf("the link was replaced: %q, %v", got, err)
	}
	has(t, in("target"), "new", 0o640)

	must(unix.Mkfifo(in("pipe"), 0o600))
	reader, err := os.OpenFile(in("pipe"), os.O_RDWR, 0) // so that neither side waits
	must(err)
	defer reader.Close()
	must(c.download(t.Context(), "/f", in("pipe")))
	b := make([]byte, 3)
	if _, err := io.ReadFull(reader, b); string(b) != "new" {
		t.Errorf("%q came through the pipe: %v", b, err)
	}

	if os.Getuid() != 0 {
		return
	}
	must(unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	must(os.Symlink("null", in("to null")))
	for _, name := range []string{"null", "to null"} {
		must(c.download(t.Context(), "/f", in(name)))
		if info, err := os.Stat(in(name)); err != nil || info.Mode().Type() != fs.ModeDevice|fs.ModeCharDevice {
			t.Errorf("%s isn't the device any more: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestUploadGoesThroughLinks(t *testing.T) {
	f, c := copies(t)
	f.files["/d"] = gen.FileEntry{Path: "/d", Type: "directory", Mode: "0755", ModifiedAt: epoch}
	f.link("/to d", "d")
	f.link("/nowhere", "/none")
	f.link("/loop", "/loop")
	src := filepath.Join(t.TempDir(), "run.sh")
	if err := os.WriteFile(src, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dst, want := range map[string]string{"/to d": "/to d/run.sh", "/nowhere": "/nowhere", "/loop": "/loop", "/none": "/none"} {
		f.written = nil
		if err := c.upload(t.Context(), src, dst); err != nil {
			t.Errorf("%s: %v", dst, err)
		}
		if got := "mode=0755&path=" + url.QueryEscape(want); len(f.written) != 1 || f.written[0] != got {
			t.Errorf("%s: %q, want %q", dst, f.written, got)
		}
	}
}

// TestDirectoryTwice copies a directory with links, a read-only file and things that can't be copied out over itself, after it has changed.
func TestDirectoryTwice(t *testing.T) {
	f, c := copies(t)
	f.files["/d"] = gen.FileEntry{Path: "/d", Type: "directory", Mode: "0755", ModifiedAt: epoch}
	dir := t.TempDir()
	dst := filepath.Join(dir, "d")
	for _, content := range []string{"one", "second"} {
		f.archive = packed(t, content,
			tar.Header{Typeflag: tar.TypeDir, Name: "sub/", Mode: 0o755},
			tar.Header{Typeflag: tar.TypeReg, Name: "sub/object", Mode: 0o444},
			tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: "sub/object"},
			tar.Header{Typeflag: tar.TypeSymlink, Name: "soft", Linkname: "sub/object"},
			tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o644},
		)
		if err := c.download(t.Context(), "/d", dir); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"sub/object", "hard", "soft"} {
			has(t, filepath.Join(dst, name), content, 0o444)
		}
		first, err1 := os.Stat(filepath.Join(dst, "sub/object"))
		second, err2 := os.Stat(filepath.Join(dst, "hard"))
		if !os.SameFile(first, second) {
			t.Errorf("the hard link is another file: %v, %v", err1, err2)
		}
	}
	f.archive = packed(t, "", tar.Header{Typeflag: tar.TypeSymlink, Name: "sub", Linkname: "/etc"})
	if err := c.download(t.Context(), "/d", dir); err == nil {
		t.Error("a link took the place of a local directory")
	}
	has(t, filepath.Join(dst, "sub/object"), "second", 0o444)
}

// TestPackLeavesOutWhatIsNoFile: a socket or a pipe in a directory doesn't fail the upload of all else.
func TestPackLeavesOutWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "sub"), 0o750), os.WriteFile(filepath.Join(dir, "sub/run"), []byte("content"), 0o755),
		os.Symlink("sub/run", filepath.Join(dir, "link")), os.Symlink("/none", filepath.Join(dir, "broken")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := pack(dir, &b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %s%s", h.Name, h.Mode, h.Linkname, content))
	}
	want := []string{"broken 777 /none", "link 777 sub/run", "sub/ 750 ", "sub/run 755 content"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// packed is an archive whose files all have the same content.
func packed(t *testing.T, content string, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			io.WriteString(w, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestAcross copies from one sandbox to another, with what a file's mode is, and a directory as it comes.
func TestAcross(t *testing.T) {
	source, from := copies(t)
	sink, to := copies(t)
	source.file("/srv/run.sh", "0755", "echo hi")
	source.files["/srv/tree"] = gen.FileEntry{Path: "/srv/tree", Type: "directory", Mode: "0755", ModifiedAt: epoch}
	source.archive = packed(t, "page", tar.Header{Name: "page", Typeflag: tar.TypeReg, Mode: 0o644, Size: 4})
	sink.files["/in"] = gen.FileEntry{Path: "/in", Type: "directory", Mode: "0755", ModifiedAt: epoch}
	inside := func(_ context.Context, sandbox string, do func(*client.Plane) error) error {
		return do(map[string]copier{"sbx_from": from, "sbx_to": to}[sandbox].plane)
	}
	for _, c := range []struct{ src, dst, written, got string }{
		{"/srv/run.sh", "/in", "mode=0755&path=%2Fin%2Frun.sh", "echo hi"},
		{"/srv/run.sh", "/in/other", "mode=0755&path=%2Fin%2Fother", "echo hi"},
		{"/srv/tree", "/in/", "path=%2Fin%2Ftree", string(source.archive)},
	} {
		if err := to.copy(t.Context(), inside, "sbx_from:"+c.src, "sbx_to:"+c.dst); err != nil {
			t.Fatal(err)
		}
		if written := sink.written[len(sink.written)-1]; written != c.written || string(sink.got) != c.got {
			t.Errorf("%s to %s: wrote %s, %q, want %s, %q", c.src, c.dst, written, sink.got, c.written, c.got)
		}
	}
	if err := to.copy(t.Context(), inside, "sbx_from:/nothing", "sbx_to:/in"); !isMissing(err) {
		t.Errorf("of what isn't there: %v", err)
	}
}

// TestNothingIsCopiedIntoItself copies within one sandbox: a directory into itself would be read as it grows.
func TestNothingIsCopiedIntoItself(t *testing.T) {
	f, c := copies(t)
	f.file("/home/user/file", "0644", "x")
	for name, at := range map[string]string{".": "/home/user", "tree": "/home/user/tree", "/home/user/tree": "/home/user/tree", "/": "/"} {
		f.files[name] = gen.FileEntry{Path: at, Type: "directory", Mode: "0755", ModifiedAt: epoch}
	}
	f.archive = packed(t, "", tar.Header{Name: "page", Typeflag: tar.TypeReg, Mode: 0o644})
	inside := func(_ context.Context, _ string, do func(*client.Plane) error) error { return do(c.plane) }
	for _, x := range []struct {
		src, dst string
		refused  bool
	}{
		{"tree", "tree", true}, {"tree", "tree/deeper", true}, {"tree", "", true}, {"/home/user/tree", "tree/../tree/", true}, {"/", "/home", true},
		{"/home/user/file", "/home/user/file", true}, {"/home/user/file", "/home/user/file2", false}, {"tree", "tree2", false}, {"tree", "/srv", false},
	} {
		err := c.copy(t.Context(), inside, "sbx_1:"+x.src, "sbx_1:"+x.dst)
		var own *cliError
		if refused := errors.As(err, &own) && own.code == "invalid_request"; refused != x.refused || !refused && err != nil {
			t.Errorf("%s to %q: %v", x.src, x.dst, err)
		}
	}
	if len(f.written) != 3 {
		t.Errorf("written are %q", f.written)
	}
}

// TestPrint: to stdout goes a file as it is, and a directory as an archive; SANDBOX: alone is the home, whose copy has its name.
func TestPrint(t *testing.T) {
	f, c := copies(t)
	f.file("note", "0644", "draft")
	f.files["."] = gen.FileEntry{Path: "/home/user", Type: "directory", Mode: "0755", ModifiedAt: epoch}
	f.archive = packed(t, "draft", tar.Header{Name: "note", Typeflag: tar.TypeReg, Mode: 0o644})
	inside := func(_ context.Context, _ string, do func(*client.Plane) error) error { return do(c.plane) }
	for src, want := range map[string][]byte{"sbx_1:note": []byte("draft"), "sbx_1:": f.archive, "sbx_1:.": f.archive} {
		var out bytes.Buffer
		c.out = &out
		if err := c.copy(t.Context(), inside, src, "-"); err != nil || !bytes.Equal(out.Bytes(), want) {
			t.Errorf("%s: %q, %v, want %q", src, out.Bytes(), err, want)
		}
	}
	dir := t.TempDir()
	if err := c.copy(t.Context(), inside, "sbx_1:", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	has(t, filepath.Join(dir, "out/note"), "draft", 0o644)
	if err := c.copy(t.Context(), inside, "sbx_1:", dir); err != nil {
		t.Fatal(err)
	}
	has(t, filepath.Join(dir, "user/note"), "draft", 0o644)
}
