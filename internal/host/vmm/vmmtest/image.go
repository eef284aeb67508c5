package vmmtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const busybox = "/usr/bin/busybox" // Debian's busybox-static

// imageBytes is the size of the tiny guest's disk.
const imageBytes = 32 << 20

// Image makes the disk of a tiny guest: an ext4 file system with busybox and its programs, users root and user.
func Image(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range []string{"bin", "sbin", "usr/bin", "etc", "dev", "proc", "sys", "run", "tmp", "root", "home/user", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatalf("%v: install busybox-static", err)
	}
	write(t, root, "bin/busybox", b, 0o755)
	write(t, root, "etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n"), 0o644)
	write(t, root, "etc/machine-id", []byte("0123456789abcdef0123456789abcdef\n"), 0o444)
	write(t, root, "etc/hosts", []byte("127.0.0.1 localhost\n"), 0o644)
	write(t, root, "etc/group", []byte("root:x:0:\nuser:x:1000:\n"), 0o644)
	for _, name := range programs(t) {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "home/user"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(t.TempDir(), "disk.img")
	out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", root, image, fmt.Sprintf("%dk", imageBytes>>10)).CombinedOutput()
	if err != nil {
		t.Fatalf("mke2fs: %v: %s", err, out)
	}
	return image
}

// programs lists what busybox can be called as, without itself.
func programs(t testing.TB) []string {
	t.Helper()
	out, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatalf("list busybox's programs: %v", err)
	}
	var names []string
	for _, n := range strings.Fields(string(out)) {
		if n != "busybox" {
			names = append(names, n)
		}
	}
	return names
}

func write(t testing.TB, root, name string, b []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), b, mode); err != nil {
		t.Fatal(err)
	}
}
