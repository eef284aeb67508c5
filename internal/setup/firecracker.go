package setup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/space-platform/space/internal/durable"
	"github.com/space-platform/space/internal/instance"
)

// FirecrackerRelease is one of Firecracker's that is installed only if it's what it was when it was looked at.
type FirecrackerRelease struct {
	Version string
	SHA256  string // of the archive for x86_64
}

// FirecrackerReleases are those that can be installed by their version, the recommended one first. In 1.16.1 a paused guest may not be heard
// again, which the driver works around; 1.15.1 has no such fault.
var FirecrackerReleases = []FirecrackerRelease{
	{"1.15.1", "d4a32ab2322d887ca1bc4a4e7afa9cc35393e6362dfc2b3becb389d362e4275a"},
	{"1.16.1", "382a02a869e4d6d5cb14c40577f9545e8458021ea8b0b2d3fc10ec14d9c242e6"},
}

const (
	// firecrackerURL is where Firecracker publishes a release; %[1]s is its version.
	firecrackerURL = "https://github.com/firecracker-microvm/firecracker/releases/download/v%[1]s/firecracker-v%[1]s-x86_64.tgz"
	// maxArchive and maxProgram bound the archive, which has some 8 MB, and a program in it; downloadTimeout the download.
	maxArchive      = 64 << 20
	maxProgram      = 64 << 20
	downloadTimeout = 10 * time.Minute
)

// FirecrackerArchive is an archive of a release in a file of its own.
type FirecrackerArchive struct {
	Path   string
	SHA256 string
}

// DownloadFirecracker fetches a release into a directory. What isn't byte for byte what was pinned is refused.
func DownloadFirecracker(ctx context.Context, version, dir string) (FirecrackerArchive, error) {
	r, err := firecrackerRelease(version)
	if err != nil {
		return FirecrackerArchive{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	a := FirecrackerArchive{Path: filepath.Join(dir, "firecracker.tgz"), SHA256: r.SHA256}
	if err := download(ctx, fmt.Sprintf(firecrackerURL, r.Version), a); err != nil {
		return a, fmt.Errorf("download Firecracker %s: %w", r.Version, err)
	}
	return a, nil
}

func firecrackerRelease(version string) (FirecrackerRelease, error) {
	var known []string
	for _, r := range FirecrackerReleases {
		if r.Version == version {
			return r, nil
		}
		known = append(known, r.Version)
	}
	return FirecrackerRelease{}, fmt.Errorf("no release %q of Firecracker is known: want %s, or the archive of another one with --file and --sha256",
		version, strings.Join(known, " or "))
}

func download(ctx context.Context, url string, a FirecrackerArchive) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(a.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(f, io.LimitReader(answer.Body, maxArchive+1))
	if err == nil && n > maxArchive {
		err = fmt.Errorf("%s: more than %d bytes", url, maxArchive)
	}
	return err
}

// InstallFirecracker installs firecracker and jailer from an archive, below instance.FirecrackerDir, makes it the current release,
// and returns its directory.
func InstallFirecracker(a FirecrackerArchive) (string, error) {
	b, err := os.ReadFile(a.Path)
	if err != nil {
		return "", fmt.Errorf("install Firecracker: %w", err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != strings.ToLower(a.SHA256) {
		return "", fmt.Errorf("install Firecracker: %s has SHA-256 %x, want %s: it's another file, or it was changed", a.Path, sum, a.SHA256)
	}
	version, programs, err := unpackFirecracker(bytes.NewReader(b))
	if err != nil {
		return "", fmt.Errorf("install Firecracker from %s: %w", a.Path, err)
	}
	dir := filepath.Join(instance.FirecrackerDir, version)
	err = installPrograms(dir, programs)
	if err == nil {
		err = makeCurrent(version)
	}
	if err != nil {
		return "", fmt.Errorf("install Firecracker: %w", err)
	}
	return dir, nil
}

// makeCurrent makes a version the one that platforms take at their next start.
func makeCurrent(version string) error {
	link := instance.FirecrackerCurrent + ".new"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(version, link); err != nil {
		return err
	}
	return os.Rename(link, instance.FirecrackerCurrent)
}

func installPrograms(dir string, programs map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range programs {
		if err := durable.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// unpackFirecracker takes the two programs out of an archive, in which each is called NAME-vVERSION-x86_64.
func unpackFirecracker(from io.Reader) (version string, programs map[string][]byte, err error) {
	z, err := gzip.NewReader(from)
	if err != nil {
		return "", nil, err
	}
	programs = map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, err
		}
		name, v, ok := programOf(h)
		if !ok {
			continue
		}
		if version != "" && v != version {
			return "", nil, fmt.Errorf("it has programs of versions %s and %s", version, v)
		}
		b, err := io.ReadAll(io.LimitReader(t, maxProgram+1))
		if err != nil {
			return "", nil, err
		}
		if len(b) > maxProgram {
			return "", nil, fmt.Errorf("%s has more than %d bytes", h.Name, maxProgram)
		}
		version, programs[name] = v, b
	}
	for _, name := range firecrackerPrograms {
		if programs[name] == nil {
			return "", nil, fmt.Errorf("it has no %s for x86_64", name)
		}
	}
	return version, programs, nil
}

// versionRE is what a release is called; it becomes a directory's name.
var versionRE = regexp.MustCompile(`^\d{1,4}\.\d{1,4}\.\d{1,4}$`)

var firecrackerPrograms = []string{"firecracker", "jailer"}

// programOf tells which program an entry is, if any.
func programOf(h *tar.Header) (name, version string, ok bool) {
	if h.Typeflag != tar.TypeReg {
		return "", "", false
	}
	for _, name := range firecrackerPrograms {
		v, found := strings.CutPrefix(path.Base(h.Name), name+"-v")
		v, x86 := strings.CutSuffix(v, "-x86_64")
		if found && x86 && versionRE.MatchString(v) {
			return name, v, true
		}
	}
	return "", "", false
}
