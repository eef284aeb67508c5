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

	"github.com/space-platform/space/internal/durable"
)

// tree is a kernel that was taken out of its package: vmlinux, the modules that a guest loads first, and this record.
type tree struct {
	Version string   `json:"version"`
	Sum     string   `json:"vmlinux_sha256"`
	Modules []string `json:"modules"` // file names, in the order in which they are loaded; none if all is built in
	dir     string
}

const (
	treePrefix    = "linux-"
	treeRecord    = "kernel.json"
	scratchPrefix = ".scratch-"
	maxRecord     = 64 << 10
	maxTrees      = 2
)

func (t tree) vmlinux() string { return filepath.Join(t.dir, "vmlinux") }

// ensureTree returns the kernel that is there, or fetches Debian's.
func ensureTree(ctx context.Context, o Options) (tree, error) {
	if !o.Update {
		if t, err := findTree(o.Dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	p, err := findPackage(ctx, o.Progress)
	if err != nil {
		return tree{}, err
	}
	dir := filepath.Join(o.Dir, treePrefix+p.version)
	if t, err := openTree(dir); err == nil {
		return t, nil
	}
	if err := makeTree(ctx, o, p, dir); err != nil {
		return tree{}, err
	}
	return openTree(dir)
}

// findTree returns the newest tree in a directory, fs.ErrNotExist if there is none.
func findTree(dir string) (tree, error) {
	paths, err := filepath.Glob(filepath.Join(dir, treePrefix+"*", treeRecord))
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
	return t, nil
}

// makeTree fetches a package and takes out of it what guests need. The tree before it stays: a machine may be starting with it.
func makeTree(ctx context.Context, o Options, p debPackage, dir string) error {
	if err := keepNewest(filepath.Join(o.Dir, scratchPrefix+"*"), 0); err != nil { // of a call that was killed
		return err
	}
	scratch, err := os.MkdirTemp(o.Dir, scratchPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	root, err := p.unpack(ctx, scratch, o.Progress)
	if err != nil {
		return err
	}
	o.Progress("extracting the kernel from " + p.name)
	made := filepath.Join(scratch, "tree")
	if err := fillTree(made, root, p); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // what another life left without its record
		return err
	}
	if err := durable.Rename(made, dir); err != nil {
		return err
	}
	return keepNewest(filepath.Join(o.Dir, treePrefix+"*"), maxTrees)
}

// fillTree writes a tree from an unpacked package. The record is written last.
func fillTree(dir, root string, p debPackage) error {
	if err := os.MkdirAll(filepath.Join(dir, modulesDir), 0o755); err != nil {
		return err
	}
	sum, err := extractVmlinux(filepath.Join(root, "boot", "vmlinuz-"+p.release()), filepath.Join(dir, "vmlinux"))
	if err != nil {
		return err
	}
	modules, err := findModules(filepath.Join(root, "lib", "modules", p.release()))
	if err != nil {
		return err
	}
	t := tree{Version: p.version, Sum: sum}
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
