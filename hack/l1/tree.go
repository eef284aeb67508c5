package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// busybox is Debian's busybox-static: the L1's shell and small programs.
const busybox = "/usr/bin/busybox"

// tree is a root file system while it's being made, in a directory of the host.
type tree struct{ root string }

func (t tree) fill(o options) error {
	if err := t.base(); err != nil {
		return err
	}
	for _, p := range o.programs {
		if err := t.addProgram(p); err != nil {
			return err
		}
	}
	for _, a := range o.add {
		from, to, ok := strings.Cut(a, "=")
		if !ok || !filepath.IsAbs(to) {
			return fmt.Errorf("add %q: want HOST=L1 with an absolute path", a)
		}
		if err := t.copy(from, to); err != nil {
			return err
		}
	}
	return nil
}

// base makes the directories, merged as Debian's are, and busybox with its names.
func (t tree) base() error {
	for _, d := range []string{
		"dev", "proc", "sys", "run", "tmp", "root", "etc", "mnt", "home", "var/tmp", "var/lib", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64",
	} {
		if err := os.MkdirAll(filepath.Join(t.root, d), 0o755); err != nil {
			return err
		}
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+d, filepath.Join(t.root, d)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/hosts": "127.0.0.1 localhost\n",
	} {
		if err := os.WriteFile(filepath.Join(t.root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := t.copy(busybox, busybox); err != nil {
		return fmt.Errorf("%w: install busybox-static", err)
	}
	names, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		err := os.Symlink("busybox", filepath.Join(t.root, "usr/bin", name))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

var libraryRE = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// addProgram adds a program and the libraries that the loader says it needs.
func (t tree) addProgram(path string) error {
	if err := t.copy(path, path); err != nil {
		return err
	}
	out, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not a dynamic executable") {
			return nil
		}
		return fmt.Errorf("find the libraries of %s: %w: %s", path, err, out)
	}
	for _, m := range libraryRE.FindAllStringSubmatch(string(out), -1) {
		if err := t.copy(m[1], m[1]); err != nil {
			return err
		}
	}
	return nil
}

// copy copies a file or a directory of the host, following a link if it's one itself.
func (t tree) copy(from, to string) error {
	target := filepath.Join(t.root, to)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	out, err := exec.Command("cp", "-aH", "--reflink=auto", "--remove-destination", "--no-target-directory",
		from, target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}
