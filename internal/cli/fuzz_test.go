package cli

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archived is a tar archive of headers; each file has "x" in it.
func archived(headers ...*tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 1
		}
		if w.WriteHeader(h) == nil && h.Typeflag == tar.TypeReg {
			w.Write([]byte("x"))
		}
	}
	w.Close()
	return b.Bytes()
}

// FuzzUnpack holds that an archive of a sandbox changes nothing outside of the directory it's unpacked into, and is no larger there than here.
func FuzzUnpack(f *testing.F) {
	for _, name := range []string{"a", "../kept", "/etc/x", "a/../../kept", "link/kept", ".", "", "..", "a/b/c"} {
		f.Add(archived(
			&tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: ".."}, &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o7777},
			&tar.Header{Typeflag: tar.TypeLink, Name: "hard", Linkname: name}, &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o777},
			&tar.Header{Typeflag: tar.TypeFifo, Name: "pipe"}, &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: "../kept"},
		))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		kept, in := filepath.Join(dir, "kept"), filepath.Join(dir, "in")
		if err := errors.Join(os.WriteFile(kept, []byte("kept"), 0o600), os.Mkdir(in, 0o700)); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(in)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		unpack(tar.NewReader(bytes.NewReader(b)), root)
		if text, err := os.ReadFile(kept); err != nil || string(text) != "kept" {
			t.Fatalf("outside is %q, %v", text, err)
		}
		if info, err := os.Lstat(kept); err != nil || info.Mode() != 0o600 {
			t.Fatalf("outside is %v, %v", info, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Fatalf("outside are %v, %v", entries, err)
		}
		var size int64
		filepath.WalkDir(in, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
				if info.Mode()&^0o777 != 0 {
					t.Errorf("%s is %s", d.Name(), info.Mode())
				}
			}
			return err
		})
		if size > int64(len(b)) { // a hard link shares its file's size, but needs a header of 512 bytes, and files here have one each as well
			t.Fatalf("%d bytes were unpacked of %d", size, len(b))
		}
	})
}

// TestSparseIsRefused: a few bytes would fill a disk.
func TestSparseIsRefused(t *testing.T) {
	for name, h := range map[string]*tar.Header{
		"PAX": {Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.realsize": "1"}}, "GNU": {Typeflag: tar.TypeGNUSparse},
	} {
		if !sparse(h) {
			t.Errorf("%s isn't taken for sparse", name)
		}
	}
	if sparse(&tar.Header{Typeflag: tar.TypeReg, PAXRecords: map[string]string{"path": "GNU.sparse."}}) {
		t.Error("a path is taken for sparse")
	}
}

// FuzzReadAuth holds that a login is whole, is the file's, and is in no error.
func FuzzReadAuth(f *testing.F) {
	f.Add("a:b", "registry.example/a")
	f.Add(`{"auths":{"registry.example":{"auth":"aHViOnB3"}}}`, "registry.example/a")
	f.Add(`{"auths":{"https://index.docker.io/v1/":{"registrytoken":"t"}}}`, "alpine")
	f.Add(`{"auths":{"":{"username":"","password":""}}}`, "/")
	f.Fuzz(func(t *testing.T, text, image string) {
		a, err := readAuth(text, registryOf(image))
		if err != nil {
			if secret := strings.TrimSpace(text); len(secret) > 40 && strings.Contains(err.Error(), secret) && !strings.Contains(image, secret) {
				t.Fatalf("the error repeats the file: %v", err)
			}
			return
		}
		if (a.Token == nil) == (a.Username == nil) || (a.Username == nil) != (a.Password == nil) || a.Token != nil && *a.Token == "" {
			t.Fatalf("%q has half a login for %q", text, image)
		}
	})
}
