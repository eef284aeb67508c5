package kernel

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// builder is a cache as 'make kernel' leaves it, and a directory that takes from it.
type builder struct {
	t *testing.T
	o Options
}

func newBuilder(t *testing.T) builder {
	t.Helper()
	b := builder{t, Options{Dir: t.TempDir(), Cache: t.TempDir(), Guest: filepath.Join(t.TempDir(), "spaced-guest"), Progress: func(line string) { t.Log(line) }}}
	b.write(b.o.Guest, []byte("the guest"))
	b.write(filepath.Join(b.o.Dir, "linux-6.1.1-1", "vmlinux"), []byte("Debian's kernel"))
	record, err := json.Marshal(tree{Version: "6.1.1-1", Sum: "aa", Wanted: guestModules})
	if err != nil {
		t.Fatal(err)
	}
	b.write(filepath.Join(b.o.Dir, "linux-6.1.1-1", treeRecord), record)
	return b
}

func (b builder) write(path string, content []byte) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// build puts a build into the cache and makes it the present one. Its manifest is what record says with the kernels' checksums.
func (b builder) build(key, smp, record string) (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.o.Cache, "6.1.2-1-"+key)
	up := elfWithNote("Xen", physEntryNote)
	both := append(elfWithNote("Xen", physEntryNote), smp...)
	b.write(filepath.Join(dir, "vmlinux-up"), up)
	b.write(filepath.Join(dir, "vmlinux-smp"), both)
	b.write(filepath.Join(dir, builtRecord), fmt.Appendf(nil, record, key, sha256.Sum256(up), sha256.Sum256(both)))
	link := filepath.Join(b.o.Cache, currentName)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(dir), link); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

const (
	goodRecord = `{"format":1,"version":"6.1.2-1","key":"%s","up":{"sha256":"%x"},"smp":{"sha256":"%x"}}`
	oneKey     = "0123456789abcdef"
	otherKey   = "fedcba9876543210"
)

func (b builder) prepare() Files {
	b.t.Helper()
	f, err := Prepare(b.t.Context(), b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

func (b builder) look() Present {
	b.t.Helper()
	p, err := Look(b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func TestTunedKernelsAreUsedWhenTheyAreThere(t *testing.T) {
	b := newBuilder(t)
	cloud := b.prepare()
	if p := b.look(); p != (Present{Version: "6.1.1-1"}) || cloud.Tuned {
		t.Errorf("before a build: %+v, %+v", p, cloud)
	}
	b.build(oneKey, "smp", goodRecord)
	tuned := b.prepare()
	if !tuned.Tuned || tuned.Version != "6.1.2-1" || tuned.Digest == cloud.Digest {
		t.Errorf("after a build: %+v", tuned)
	}
	if p := b.look(); p != (Present{Tuned: true, Version: "6.1.2-1"}) {
		t.Errorf("after a build: %+v", p)
	}
	for vcpus, name := range map[int]string{1: "vmlinux", 2: "vmlinux-smp", 32: "vmlinux-smp"} {
		if got := tuned.For(vcpus); filepath.Base(got) != name || filepath.Dir(filepath.Dir(got)) != b.o.Dir {
			t.Errorf("for %d vCPUs: %s", vcpus, got)
		}
	}
	b.o.Progress = func(line string) { t.Errorf("the second call did something: %s", line) }
	if again := b.prepare(); again != tuned {
		t.Errorf("the second call returned %+v, the first %+v", again, tuned)
	}
	b.o.Kind = Cloud
	if got, p := b.prepare(), b.look(); got != cloud || p.Tuned {
		t.Errorf("Debian's, by name: %+v, %+v", got, p)
	}
}

func TestAnotherBuildIsAnotherDigest(t *testing.T) {
	b := newBuilder(t)
	b.build(oneKey, "smp", goodRecord)
	first := b.prepare()
	b.build(otherKey, "another smp", goodRecord)
	if second := b.prepare(); second.Digest == first.Digest || second.SMP == first.SMP {
		t.Errorf("%+v, then %+v", first, second)
	}
	if _, err := os.Stat(first.SMP); err != nil {
		t.Errorf("kernels that a running daemon may use: %v", err)
	}
}

func TestAnEmptiedCacheChangesNothing(t *testing.T) {
	b := newBuilder(t)
	b.build(oneKey, "smp", goodRecord)
	want := b.prepare()
	if err := os.RemoveAll(b.o.Cache); err != nil {
		t.Fatal(err)
	}
	if got, p := b.prepare(), b.look(); got != want || !p.Tuned {
		t.Errorf("Prepare = %+v, want %+v; Look = %+v", got, want, p)
	}
}

func TestACutCopyIsTakenAgain(t *testing.T) {
	b := newBuilder(t)
	b.build(oneKey, "smp", goodRecord)
	want := b.prepare()
	if err := os.Remove(want.SMP); err != nil {
		t.Fatal(err)
	}
	if got := b.prepare(); got != want {
		t.Errorf("Prepare = %+v, want %+v", got, want)
	}
	if _, err := os.Stat(want.SMP); err != nil {
		t.Error(err)
	}
}

func TestTunedKernelsThatAreNotThoseOfTheManifestAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		record string
		spoil  func(b builder, dir string)
		want   string
	}{
		"changed kernel":  {goodRecord, func(b builder, dir string) { b.write(filepath.Join(dir, "vmlinux-smp"), []byte("other")) }, "its manifest says"},
		"missing kernel":  {goodRecord, func(b builder, dir string) { os.Remove(filepath.Join(dir, "vmlinux-up")) }, "no such file"},
		"newer format":    {strings.Replace(goodRecord, `"format":1`, `"format":2`, 1), nil, "format 2"},
		"path as version": {strings.Replace(goodRecord, "6.1.2-1", "../../x", 1), nil, "want what this version's"},
		"path as key":     {strings.Replace(goodRecord, `"key":"`, `"key":"../`, 1), nil, "want what this version's"},
		"no JSON":         {"", nil, "kernels.json"},
		"no PVH entry": {goodRecord, func(b builder, dir string) {
			plain := elfWithNote("GNU", physEntryNote)
			b.write(filepath.Join(dir, "vmlinux-up"), plain)
			b.write(filepath.Join(dir, builtRecord), fmt.Appendf(nil, goodRecord, oneKey, sha256.Sum256(plain), sha256.Sum256(plain)))
		}, "no PVH entry"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			dir := b.build(oneKey, "smp", c.record)
			if c.spoil != nil {
				c.spoil(b, dir)
			}
			if f, err := Prepare(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prepare = %+v, %v, want %q", f, err, c.want)
			}
			left, err := filepath.Glob(filepath.Join(b.o.Dir, tunedPrefix+"*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestAKindByNameIsUsedOrAnError(t *testing.T) {
	b := newBuilder(t)
	b.o.Kind = Tuned
	if f, err := Prepare(t.Context(), b.o); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "make kernel") {
		t.Errorf("tuned, without any: %+v, %v", f, err)
	}
	if p, err := Look(b.o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("tuned, without any: %+v, %v", p, err)
	}
	b.o.Kind = "mine"
	if f, err := Prepare(t.Context(), b.o); err == nil || !strings.Contains(err.Error(), `kernel "mine" is unknown`) {
		t.Errorf("an unknown one: %+v, %v", f, err)
	}
}
