package rootfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	space "github.com/space-platform/space"
)

// fillBase installs Debian with the recipe's packages, and the user.
func fillBase(ctx context.Context, b *build) error {
	if err := fillDebian(ctx, b); err != nil {
		return err
	}
	return b.writeFiles(map[string]string{
		"etc/sudoers.d/user": "user ALL=(ALL:ALL) NOPASSWD: ALL\n",
		"etc/pip.conf":       "[global]\nbreak-system-packages = true\n", // a sandbox has no other Python to protect
	})
}

// fillDebian installs a Debian with the recipe's packages, and a user without rights.
func fillDebian(ctx context.Context, b *build) error {
	sources, err := machineSources("/", b.recipe.suite)
	if err != nil {
		return err
	}
	if err := b.bootstrap(ctx, sources); err != nil {
		return err
	}
	b.progress("adding the user")
	if err := b.chroot(ctx, "/usr/sbin/useradd", "--create-home", "--uid", "1000", "--shell", "/bin/bash", "user"); err != nil {
		return err
	}
	var lines strings.Builder
	for _, s := range sources {
		lines.WriteString(s.guest().line() + "\n")
	}
	if err := b.writeFiles(map[string]string{
		"etc/apt/sources.list":        lines.String(),
		"etc/default/locale":          "LANG=C.UTF-8\n",
		"etc/machine-id":              "",
		"etc/dpkg/dpkg.cfg.d/sandbox": dpkgConfig,
	}); err != nil {
		return err
	}
	return b.forget("etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "var/log/*", "var/cache/apt/*.bin", "var/cache/ldconfig/*")
}

// dpkgConfig leaves out what a program doesn't read, now and when the guest installs more.
const dpkgConfig = `path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/locale/*
`

// userPackage has what adds users; a later Debian's apt brings it no more.
const userPackage = "passwd"

// bootstrap lets mmdebstrap make the tree from the machine's sources.
func (b *build) bootstrap(ctx context.Context, sources []source) error {
	b.progress(fmt.Sprintf("installing Debian %s with %s", b.recipe.suite, strings.Join(b.recipe.packages, ", ")))
	packages := append([]string{userPackage}, b.recipe.packages...)
	args := []string{"--mode=root", "--variant=apt", "--format=directory", "--include=" + strings.Join(packages, ","),
		"--dpkgopt=force-unsafe-io",
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Languages "none"`}
	for line := range strings.Lines(dpkgConfig) {
		args = append(args, "--dpkgopt="+strings.TrimSpace(line))
	}
	for _, line := range machineAptOptions(ctx) {
		args = append(args, "--aptopt="+line)
	}
	args = append(args, b.recipe.suite, b.root)
	for _, s := range sources {
		args = append(args, s.line())
	}
	c := exec.CommandContext(ctx, "mmdebstrap", args...)
	c.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	err := run(c)
	if err != nil && b.order.Debian.Suite != "" {
		return orderedWrongly(b.order.Debian.Suite, err)
	}
	return err
}

// How apt says that an archive doesn't have a suite, or a suite a package.
var (
	noSuite   = regexp.MustCompile(`The repository '(\S+) \S+ Release' does not have a Release file`)
	noPackage = regexp.MustCompile(`Unable to locate package (\S+)`)
)

// orderedWrongly is the error of making a Debian that somebody has ordered: what apt says there isn't is a fault of the order's.
func orderedWrongly(suite string, err error) error {
	if m := noPackage.FindStringSubmatch(err.Error()); m != nil {
		return space.FieldErrorf("debian.packages", "Debian %s has no package %s", suite, m[1])
	}
	if m := noSuite.FindStringSubmatch(err.Error()); m != nil {
		return space.FieldErrorf("debian.suite", "there is no Debian %s at %s", suite, m[1])
	}
	return err
}

// machineAptOptions returns how the machine's own apt reaches its archives: proxies and what it tolerates. They're for making the tree
// and don't stay in it.
func machineAptOptions(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump", "--no-empty").Output()
	if err != nil {
		return nil
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		for _, p := range []string{"Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries", "Acquire::ForceIPv"} {
			if strings.HasPrefix(line, p) {
				lines = append(lines, line)
				break
			}
		}
	}
	return lines
}

// chroot runs a program of the tree in the tree.
func (b *build) chroot(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: b.root}
	c.Path, c.Err = name, nil // it's found in the tree, not here
	return run(c)
}

// forget removes what matches patterns below the root, whole directories too.
func (b *build) forget(patterns ...string) error {
	for _, p := range patterns {
		paths, err := filepath.Glob(filepath.Join(b.root, p))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove %s: %w", p, err)
			}
		}
	}
	return nil
}
