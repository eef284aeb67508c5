package rootfs

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxBusybox bounds the program of the mini template, in bytes; Debian's has 2 MB.
const maxBusybox = 16 << 20

// fillMini writes a static busybox with a link for each of its commands, and the users.
func fillMini(ctx context.Context, b *build) error {
	b.progress("writing busybox")
	program, err := staticBusybox()
	if err != nil {
		return err
	}
	for dir, mode := range map[string]fs.FileMode{
		"bin": 0o755, "sbin": 0o755, "usr/bin": 0o755, "usr/sbin": 0o755, "dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "etc": 0o755,
		"root": 0o700, "home/user": 0o755, "tmp": 0o777 | fs.ModeSticky, "var/tmp": 0o777 | fs.ModeSticky,
	} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(b.root, dir), mode); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(b.root, "bin/busybox"), program, 0o755); err != nil {
		return err
	}
	if err := b.links(ctx); err != nil {
		return err
	}
	if err := b.writeFiles(map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
		"etc/group":  "root:x:0:\nuser:x:1000:\n",
	}); err != nil {
		return err
	}
	return os.Chown(filepath.Join(b.root, "home/user"), 1000, 1000)
}

// staticBusybox returns the machine's busybox if it runs without libraries.
func staticBusybox() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("the mini template needs busybox: apt-get install busybox-static: %w", err)
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s needs libraries: apt-get install busybox-static", path)
		}
	}
	b, err := os.ReadFile(path)
	if err == nil && len(b) > maxBusybox {
		err = errors.New("it's too large")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// links makes a link for each command that busybox has, where it wants it.
func (b *build) links(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, filepath.Join(b.root, "bin/busybox"), "--list-full").Output()
	if err != nil {
		return fmt.Errorf("list the commands of busybox: %w", err)
	}
	root, err := os.OpenRoot(b.root)
	if err != nil {
		return err
	}
	defer root.Close()
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if name == "" || name == "bin/busybox" {
			continue
		}
		if err := root.Symlink("/bin/busybox", name); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("link the command %s: %w", name, err)
		}
	}
	return nil
}
