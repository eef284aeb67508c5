package setup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
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
	_, err := InstallFirecracker(FirecrackerArchive{Path: path, SHA256: hex.EncodeToString(other[:])})
	if err == nil || !strings.Contains(err.Error(), "another file, or it was changed") {
		t.Errorf("installed: %v", err)
	}
	if _, err := DownloadFirecracker(t.Context(), "1.2.3", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no release") {
		t.Errorf("downloaded a release that isn't pinned: %v", err)
	}
}
