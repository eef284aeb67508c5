package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/space-platform/space/internal/durable"
)

// tree is a kernel that was taken out of its package, or two that were built: vmlinux, the modules that a guest loads first, and this record.
type tree struct {
	Version string   `json:"version"`
	Sum     string   `json:"vmlinux_sha256"`
	SMPSum  string   `json:"smp_sha256,omitempty"` // of the kernel for more than one vCPU, vmlinux-smp; "" if vmlinux is for all
	Modules []string `json:"modules"`              // file names, in the order in which they are loaded; none if all is built in
	Wanted  []string `json:"wanted,omitempty"`     // the drivers that were looked for; one made for others is made again
	dir     string
}

const (
	cloudPrefix   = "linux-"
	tunedPrefix   = "tuned-"
	treeRecord    = "kernel.json"
	scratchPrefix = ".scratch-"
	maxRecord     = 64 << 10
	maxTrees      = 2
)

func (t tree) vmlinux() string { return filepath.Join(t.dir, "vmlinux") }
func (t tree) smp() string     { return filepath.Join(t.dir, "vmlinux-smp") }

// files are what machines boot with this tree and an initramfs of a checksum.
func (t tree) files(initrd, sum string) Files {
	f := Files{Vmlinux: t.vmlinux(), SMP: t.vmlinux(), Initrd: initrd, Version: t.Version, Digest: digest(t.Sum, sum)}
	if t.SMPSum != "" {
		f.SMP, f.Tuned, f.Digest = t.smp(), true, digest(t.Sum, t.SMPSum, sum)
	}
	return f
}

// ensureTree returns a kernel of the kind that is wanted.
func ensureTree(ctx context.Context, o Options) (tree, error) {
	switch o.Kind {
	case Tuned:
		return ensureTuned(o)
	case Cloud:
		return ensureCloud(ctx, o)
	case "":
		if t, err := ensureTuned(o); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
		return ensureCloud(ctx, o)
	default:
		return tree{}, fmt.Errorf("kernel %q is unknown: leave it empty, or %q, or %q", o.Kind, Tuned, Cloud)
	}
}

// ensureCloud returns Debian's kernel that is there, or fetches it.
func ensureCloud(ctx context.Context, o Options) (tree, error) {
	if !o.Update {
		if t, err := findCloud(o); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	p, err := findPackage(ctx, o.Progress)
	if err != nil {
		return tree{}, err
	}
	dir := filepath.Join(o.Dir, cloudPrefix+p.version)
	if t, err := openTree(dir); err == nil && t.has(o.modules()) {
		return t, nil
	}
	if err := makeCloud(ctx, o, p, dir); err != nil {
		return tree{}, err
	}
	return openTree(dir)
}

// findCloud returns the newest of Debian's kernels that is there, fs.ErrNotExist if there is none with the drivers that are wanted now.
func findCloud(o Options) (tree, error) {
	t, err := findTree(o.Dir, cloudPrefix)
	if err == nil && !t.has(o.modules()) {
		return tree{}, fmt.Errorf("the kernel in %s was made with other drivers: %w", t.dir, fs.ErrNotExist)
	}
	return t, err
}

// has tells whether exactly these drivers were looked for.
func (t tree) has(wanted []string) bool { return slices.Equal(t.Wanted, wanted) }

// findTree returns the newest tree of a kind in a directory, fs.ErrNotExist if there is none.
func findTree(dir, prefix string) (tree, error) {
	paths, err := filepath.Glob(filepath.Join(dir, prefix+"*", treeRecord))
	if err != nil {
		return tree{}, err
	}
	if len(paths) == 0 {
		return tree{}, fmt.Errorf("no kernel in %s: %w", dir, fs.ErrNotExist)
	}
	newestFirst(paths)
	return openTree(filepath.Dir(paths[0]))
}

func openTree(dir string) (tree, error) {
	t := tree{dir: dir}
	if err := durable.ReadJSON(filepath.Join(dir, treeRecord), maxRecord, &t); err != nil {
		return tree{}, err
	}
	if _, err := os.Stat(t.vmlinux()); err != nil {
		return tree{}, err
	}
	if t.SMPSum == "" {
		return t, nil
	}
	if _, err := os.Stat(t.smp()); err != nil {
		return tree{}, err
	}
	return t, nil
}

// makeCloud fetches a package and takes out of it what guests need. The tree before it stays: a machine may be starting with it.
func makeCloud(ctx context.Context, o Options, p debPackage, dir string) error {
	return o.makeTree(cloudPrefix, dir, func(scratch, made string) error {
		root, err := p.unpack(ctx, scratch, o.Progress)
		if err != nil {
			return err
		}
		o.Progress("extracting the kernel from " + p.name)
		return fillTree(made, root, p, o.modules())
	})
}

// makeTree makes a tree by calling fill, which writes it into made, and may use scratch; the record is what it writes last.
func (o Options) makeTree(prefix, dir string, fill func(scratch, made string) error) error {
	if err := keepNewest(filepath.Join(o.Dir, scratchPrefix+"*"), 0); err != nil { // of a call that was killed
		return err
	}
	scratch, err := os.MkdirTemp(o.Dir, scratchPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	made := filepath.Join(scratch, "tree")
	if err := fill(scratch, made); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // what another life left without its record
		return err
	}
	if err := durable.Rename(made, dir); err != nil {
		return err
	}
	return keepNewest(filepath.Join(o.Dir, prefix+"*"), maxTrees)
}

// fillTree writes a tree from an unpacked package. The record is written last.
func fillTree(dir, root string, p debPackage, wanted []string) error {
	if err := os.MkdirAll(filepath.Join(dir, modulesDir), 0o755); err != nil {
		return err
	}
	sum, err := extractVmlinux(filepath.Join(root, "boot", "vmlinuz-"+p.release()), filepath.Join(dir, "vmlinux"))
	if err != nil {
		return err
	}
	modules, err := findModules(filepath.Join(root, "lib", "modules", p.release()), wanted)
	if err != nil {
		return err
	}
	t := tree{Version: p.version, Sum: sum, Wanted: wanted}
	for _, m := range modules {
		b, err := readBounded(m.path, maxModule)
		if err != nil {
			return err
		}
		name := m.name + ".ko"
		if err := durable.WriteFile(filepath.Join(dir, modulesDir, name), b, 0o644); err != nil {
			return err
		}
		t.Modules = append(t.Modules, name)
	}
	return durable.WriteJSON(filepath.Join(dir, treeRecord), t, 0o644)
}

func extractVmlinux(bzImage, to string) (sum string, err error) {
	b, err := readBounded(bzImage, maxVmlinux)
	if err != nil {
		return "", err
	}
	vmlinux, err := Vmlinux(b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(bzImage), err)
	}
	h := sha256.Sum256(vmlinux)
	return hex.EncodeToString(h[:]), durable.WriteFile(to, vmlinux, 0o644)
}
