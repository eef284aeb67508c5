package setup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// archive makes one with files by name.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFirecrackersProgramsAreFoundInItsArchive(t *testing.T) {
	const dir = "release-v1.15.1-x86_64/"
	good := map[string]string{
		dir + "firecracker-v1.15.1-x86_64": "the VMM", dir + "jailer-v1.15.1-x86_64": "the jailer", dir + "jailer-v1.15.1-x86_64.debug": "no",
		dir + "LICENSE": "no",
	}
	version, programs, err := unpackFirecracker(bytes.NewReader(archive(t, good)))
	if err != nil || version != "1.15.1" || len(programs) != 2 || string(programs["firecracker"]) != "the VMM" || string(programs["jailer"]) != "the jailer" {
		t.Errorf("unpacked %q %q, %v", version, programs, err)
	}
	for want, files := range map[string]map[string]string{
		"no jailer":      {dir + "firecracker-v1.15.1-x86_64": "x"},
		"no firecracker": {dir + "firecracker-v1.15.1-aarch64": "x", dir + "jailer-v1.15.1-x86_64": "x"},
		"of versions":    {dir + "firecracker-v1.15.1-x86_64": "x", dir + "jailer-v1.16.1-x86_64": "x"},
		"no ":            {"firecracker-v../../etc-x86_64": "x"},
	} {
		if _, _, err := unpackFirecracker(bytes.NewReader(archive(t, files))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", files, err, want)
		}
	}
}

func TestAnArchiveThatIsNotThePinnedOneInstallsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tgz")
	if err := os.WriteFile(path, archive(t, map[string]string{"firecracker-v9.9.9-x86_64": "x", "jailer-v9.9.9-x86_64": "x"}), 0o600); err != nil {
		t.Fatal(err)
	}
	other := sha256.Sum256([]byte("another file"))
	_, err := InstallFirecracker(FirecrackerArchive{Path: path, SHA256: hex.EncodeToString(other[:])}, nil)
	if err == nil || !strings.Contains(err.Error(), "another file, or it was changed") {
		t.Errorf("installed: %v", err)
	}
	if _, err := FindFirecracker("1.2.3"); err == nil || !strings.Contains(err.Error(), "no release") {
		t.Errorf("found a release that isn't pinned: %v", err)
	}
}

// save writes an archive of one release, and tells what it is.
func save(t *testing.T, version string) FirecrackerArchive {
	t.Helper()
	dir := "release-v" + version + "-x86_64/"
	b := archive(t, map[string]string{dir + "firecracker-v" + version + "-x86_64": "the VMM " + version, dir + "jailer-v" + version + "-x86_64": "the jailer"})
	path := filepath.Join(t.TempDir(), "release.tgz")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	return FirecrackerArchive{Path: path, SHA256: hex.EncodeToString(sum[:])}
}

// says answers for programs whose content is their version.
func says(program, _ string) (string, error) {
	b, err := os.ReadFile(program)
	return strings.TrimPrefix(string(b), "the VMM "), err
}

// TestAReleaseThatIsRefusedChangesNothing has the release that works stay the current one when another is installed that doesn't.
func TestAReleaseThatIsRefusedChangesNothing(t *testing.T) {
	root := t.TempDir()
	dir, err := installFirecracker(root, save(t, "1.15.1"), says)
	if err != nil || dir != filepath.Join(root, "1.15.1") {
		t.Fatalf("installed in %s, %v", dir, err)
	}
	refuse := errors.New("it isn't supported")
	for name, version := range map[string]func(string, string) (string, error){
		refuse.Error():         func(string, string) (string, error) { return "", refuse },
		"and are version 1.16": func(string, string) (string, error) { return "1.16.1", nil },
	} {
		if _, err := installFirecracker(root, save(t, "1.14.2"), version); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("installed: %v, want %q", err, name)
		}
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 2 {
		t.Errorf("there are %v, %v, want one release and the link", left, err)
	}
	if to, err := os.Readlink(filepath.Join(root, "current")); err != nil || to != "1.15.1" {
		t.Errorf("the current one is %q, %v", to, err)
	}
	if _, err := installFirecracker(root, save(t, "1.16.1"), says); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "current", "firecracker")); err != nil || string(b) != "the VMM 1.16.1" {
		t.Errorf("the current one is %q, %v", b, err)
	}
}

func TestAnArchiveThatIsNoWholeOneIsCalledSo(t *testing.T) {
	whole := archive(t, map[string]string{"firecracker-v1.15.1-x86_64": "the VMM", "jailer-v1.15.1-x86_64": "the jailer"})
	for want, b := range map[string][]byte{"it's no .tgz": []byte("a page that says why not"), "isn't a whole .tgz": whole[:len(whole)/2]} {
		if _, _, err := unpackFirecracker(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
