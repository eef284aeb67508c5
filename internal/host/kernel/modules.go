package kernel

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// guestModules are the drivers that a guest needs before it has a root file system, by their names in the kernel.
var guestModules = []string{"virtio_mmio", "virtio_console", "vmw_vsock_virtio_transport", "virtio_blk", "virtio_net", "virtio_rng"}

// maxModule bounds a module that is read; virtio_net has 150 KB.
const maxModule = 16 << 20

// module is a driver that isn't built into the kernel.
type module struct {
	name    string
	path    string
	depends []string // names of the modules that must be loaded before
}

// findModules returns the wanted modules and those that they need, in an order in which they can be loaded. A kernel with everything
// built in has none.
func findModules(dir string, wanted []string) ([]module, error) {
	found, err := listModules(dir)
	if err != nil {
		return nil, err
	}
	builtin, err := builtinModules(dir)
	if err != nil {
		return nil, err
	}
	var order []module
	var add func(name string) error
	add = func(name string) error {
		if slices.Contains(builtin, name) || slices.ContainsFunc(order, func(m module) bool { return m.name == name }) {
			return nil
		}
		path, ok := found[name]
		if !ok {
			return fmt.Errorf("the kernel has no module %s, and it isn't built in", name)
		}
		m, err := readModule(name, path)
		if err != nil {
			return err
		}
		for _, d := range m.depends {
			if err := add(d); err != nil {
				return fmt.Errorf("%w (%s needs it)", err, name)
			}
		}
		order = append(order, m)
		return nil
	}
	for _, name := range wanted {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// listModules maps the names of the modules below a directory to their files.
func listModules(dir string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base, _, ok := strings.Cut(d.Name(), ".ko"); ok && d.Type().IsRegular() {
			found[moduleName(base)] = path
		}
		return nil
	})
	return found, err
}

// builtinModules reads which modules a kernel doesn't need to load.
func builtinModules(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("read which modules are built in: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(b)) {
		names = append(names, moduleName(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko")))
	}
	return names, nil
}

// moduleName is how the kernel calls the module of a file: virtio-rng.ko is virtio_rng.
func moduleName(base string) string { return strings.ReplaceAll(base, "-", "_") }

func readModule(name, path string) (module, error) {
	if !strings.HasSuffix(path, ".ko") {
		return module{}, fmt.Errorf("module %s is compressed (%s): only plain ones are understood", name, filepath.Base(path))
	}
	f, err := elf.Open(path)
	if err != nil {
		return module{}, fmt.Errorf("read module %s: %w", path, err)
	}
	defer f.Close()
	s := f.Section(".modinfo")
	if s == nil || s.Size > maxModule {
		return module{}, fmt.Errorf("read module %s: it doesn't say what it needs", path)
	}
	info, err := s.Data()
	if err != nil {
		return module{}, fmt.Errorf("read module %s: %w", path, err)
	}
	return module{name: name, path: path, depends: parseDepends(info)}, nil
}

// parseDepends reads the names after "depends=" in a module's list of zero-terminated entries.
func parseDepends(info []byte) []string {
	for e := range bytes.SplitSeq(info, []byte{0}) {
		list, ok := bytes.CutPrefix(e, []byte("depends="))
		if !ok {
			continue
		}
		return strings.FieldsFunc(moduleName(string(list)), func(r rune) bool { return r == ',' })
	}
	return nil
}
