package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// moduleDir is where the initramfs has the kernel's modules, and a file, order, with one name a line in the order of loading.
const moduleDir = "/modules"

// compressed is MODULE_INIT_COMPRESSED_FILE: the kernel decompresses.
const compressed = 4

// loadModules loads the modules that are listed. Without a list the kernel has all it needs built in.
func loadModules(dir string) error {
	order, err := os.ReadFile(path.Join(dir, "order"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the list of modules: %w", err)
	}
	for _, name := range strings.Fields(string(order)) {
		if err := loadModule(path.Join(dir, name)); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(file, ".ko") {
		flags = compressed
	}
	err = unix.FinitModule(int(f.Fd()), "", flags)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
