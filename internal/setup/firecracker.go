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

// URL is where it's published.
func (r FirecrackerRelease) URL() string { return fmt.Sprintf(firecrackerURL, r.Version) }

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
func DownloadFirecracker(ctx context.Context, r FirecrackerRelease, dir string) (FirecrackerArchive, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	a := FirecrackerArchive{Path: filepath.Join(dir, "firecracker.tgz"), SHA256: r.SHA256}
	if err := download(ctx, r.URL(), a); err != nil {
		return a, fmt.Errorf("download Firecracker %s: %w", r.Version, err)
	}
	return a, nil
}

// FindFirecracker returns the release of a version.
func FindFirecracker(version string) (FirecrackerRelease, error) {
	var known []string
	for _, r := range FirecrackerReleases {
		if r.Version == version {
			return r, nil
		}
		known = append(known, r.Version)
	}
	return FirecrackerRelease{}, fmt.Errorf("no release %q of Firecracker is known: want %s, or the archive of another supported one with --file and --sha256",
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
// and returns its directory. version is asked for the version of the two programs, and refuses what no machine would run with; the release that was
// current then still is.
func InstallFirecracker(a FirecrackerArchive, version func(program, jailer string) (string, error)) (string, error) {
	return installFirecracker(instance.FirecrackerDir, a, version)
}

func installFirecracker(root string, a FirecrackerArchive, version func(program, jailer string) (string, error)) (string, error) {
	b, err := readArchive(a.Path)
	if err != nil {
		return "", fmt.Errorf("install Firecracker: %w", err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != strings.ToLower(a.SHA256) {
		return "", fmt.Errorf("install Firecracker: %s has SHA-256 %x, want %s: it's another file, or it was changed", a.Path, sum, a.SHA256)
	}
	named, programs, err := unpackFirecracker(bytes.NewReader(b))
	if err != nil {
		return "", fmt.Errorf("install Firecracker from %s: %w", a.Path, err)
	}
	dir := filepath.Join(root, named)
	err = try(dir+".new", named, programs, version)
	if err == nil {
		err = installPrograms(dir, programs)
	}
	if err == nil {
		err = makeCurrent(root, named)
	}
	if err != nil {
		return "", fmt.Errorf("install Firecracker: %w", err)
	}
	return dir, nil
}

// try asks the programs for their version, in a directory that it removes again.
func try(dir, named string, programs map[string][]byte, version func(program, jailer string) (string, error)) error {
	defer os.RemoveAll(dir)
	if err := installPrograms(dir, programs); err != nil {
		return err
	}
	v, err := version(filepath.Join(dir, firecrackerPrograms[0]), filepath.Join(dir, firecrackerPrograms[1]))
	if err == nil && v != named {
		err = fmt.Errorf("the archive's programs are called %s, and are version %s", named, v)
	}
	return err
}

func readArchive(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxArchive+1))
	if err == nil && len(b) > maxArchive {
		err = fmt.Errorf("%s has more than %d bytes", path, maxArchive)
	}
	return b, err
}

// makeCurrent makes a version the one that platforms take at their next start.
func makeCurrent(root, version string) error {
	current := filepath.Join(root, filepath.Base(instance.FirecrackerCurrent))
	link := current + ".new"
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(version, link); err != nil {
		return err
	}
	return os.Rename(link, current)
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
		return "", nil, fmt.Errorf("it's no .tgz: %w", err)
	}
	programs = map[string][]byte{}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, fmt.Errorf("it isn't a whole .tgz: %w", err)
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
			return "", nil, fmt.Errorf("it isn't a whole .tgz: %w", err)
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
