package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/space-platform/space/internal/durable"
)

// DefaultCache is where 'make kernel' puts what it builds. It belongs to root and to no instance: each takes a copy, so that a new build, or
// an emptied cache, changes nothing under a running platform.
const DefaultCache = "/var/cache/space/kernels"

const (
	// currentName is the link in the cache that leads to the build to use.
	currentName = "current"
	// builtRecord is a build's manifest, and builtFormat the version that is understood.
	builtRecord = "kernels.json"
	builtFormat = 1
)

// built is a build's manifest.
type built struct {
	Format  int         `json:"format"`
	Version string      `json:"version"` // of the source
	Key     string      `json:"key"`     // of source, compiler and configuration together
	UP      builtKernel `json:"up"`      // for one vCPU
	SMP     builtKernel `json:"smp"`     // for more
	dir     string
}

type builtKernel struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

// treeName is what the copy is called.
func (b built) treeName() string { return tunedPrefix + b.Version + "-" + b.Key }

var (
	builtVersionRE = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~-]{0,62}$`)
	builtKeyRE     = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

// readBuilt reads the manifest of the cache's present build; fs.ErrNotExist if there is none.
func readBuilt(cache string) (built, error) {
	dir, err := filepath.EvalSymlinks(filepath.Join(cache, currentName)) // once: a new build may take its place meanwhile
	if err != nil {
		return built{}, err
	}
	b := built{dir: dir}
	path := filepath.Join(dir, builtRecord)
	if err := durable.ReadJSON(path, maxRecord, &b); err != nil {
		return built{}, err
	}
	if b.Format != builtFormat || !builtVersionRE.MatchString(b.Version) || !builtKeyRE.MatchString(b.Key) {
		return built{}, fmt.Errorf("read %s: format %d, version %q, key %q: want what this version's 'make kernel' writes", path, b.Format, b.Version, b.Key)
	}
	return b, nil
}

// ensureTuned returns the build that is in the cache, or the newest that was taken from it before; fs.ErrNotExist if there is neither.
func ensureTuned(o Options) (tree, error) {
	b, err := readBuilt(o.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		t, err := findTree(o.Dir, tunedPrefix)
		if errors.Is(err, fs.ErrNotExist) {
			return tree{}, fmt.Errorf("no kernel was built in %s ('make kernel' does that): %w", o.Cache, fs.ErrNotExist)
		}
		return t, err
	}
	if err != nil {
		return tree{}, err
	}
	dir := filepath.Join(o.Dir, b.treeName())
	if t, err := openTree(dir); err == nil {
		return t, nil
	}
	o.Progress(fmt.Sprintf("taking the tuned kernels %s (%s)", b.Version, b.Key))
	err = o.makeTree(tunedPrefix, dir, func(_, made string) error { return b.copyTo(made) })
	if err != nil { // not wrapped: a build without one of its files is no absence of a build
		return tree{}, fmt.Errorf("take the kernels that 'make kernel' built: %v", err)
	}
	return openTree(dir)
}

// copyTo makes a tree of a build. A kernel that isn't what the manifest says is refused.
func (b built) copyTo(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, k := range []struct {
		from, to string
		want     builtKernel
	}{{"vmlinux-up", "vmlinux", b.UP}, {"vmlinux-smp", "vmlinux-smp", b.SMP}} {
		if err := copyKernel(filepath.Join(b.dir, k.from), filepath.Join(dir, k.to), k.want); err != nil {
			return err
		}
	}
	return durable.WriteJSON(filepath.Join(dir, treeRecord), tree{Version: b.Version, Sum: b.UP.SHA256, SMPSum: b.SMP.SHA256}, 0o644)
}

func copyKernel(from, to string, want builtKernel) error {
	b, err := readBounded(from, maxVmlinux)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); got != want.SHA256 {
		return fmt.Errorf("%s has the checksum %s, its manifest says %s: 'make kernel' builds it anew", from, got, want.SHA256)
	}
	if err := checkPVH(b); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return durable.WriteFile(to, b, 0o644)
}

// Present is what Prepare would use now.
type Present struct {
	Tuned   bool
	Version string // "" for one of Debian's kernels that has yet to be fetched
}

// Look says which kernels Prepare would use, without preparing anything.
func Look(o Options) (Present, error) {
	if o.Cache == "" {
		o.Cache = DefaultCache
	}
	if o.Kind != Cloud {
		p, err := lookTuned(o)
		if err == nil || o.Kind == Tuned || !errors.Is(err, fs.ErrNotExist) {
			return p, err
		}
	}
	t, err := findTree(o.Dir, cloudPrefix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Present{}, err
	}
	return Present{Version: t.Version}, nil
}

func lookTuned(o Options) (Present, error) {
	b, err := readBuilt(o.Cache)
	if err == nil {
		return Present{Tuned: true, Version: b.Version}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Present{}, err
	}
	t, err := findTree(o.Dir, tunedPrefix)
	return Present{Tuned: true, Version: t.Version}, err
}
