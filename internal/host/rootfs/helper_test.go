package rootfs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain lets the test's own program be the helper.
func TestMain(m *testing.M) {
	if i := slices.Index(os.Args, Subcommand); i > 0 {
		os.Exit(HelperMain(os.Args[i+1:]))
	}
	os.Exit(m.Run())
}

func find(t *testing.T, name string) Recipe {
	t.Helper()
	r, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mini(dir string) Order {
	return Order{Dir: dir, Label: "mini", Recipe: "mini", DiskBytes: 64 * mib}
}

// ask runs a command of debugfs on an image.
func ask(t *testing.T, image, command string) string {
	t.Helper()
	out, err := exec.Command("debugfs", "-R", command, image).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestMiniIsASmallFileSystemWithAJournal(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	if _, err := Self().Make(t.Context(), mini(dir), func(l string) { lines = append(lines, l) }); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, DiskName)
	if out, err := exec.Command("e2fsck", "-fn", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if features := ask(t, image, "features"); !strings.Contains(features, "has_journal") {
		t.Errorf("features: %s", features)
	}
	if passwd := ask(t, image, "cat /etc/passwd"); !strings.Contains(passwd, "user:x:1000:1000:") {
		t.Errorf("passwd: %s", passwd)
	}
	if link := ask(t, image, "stat /bin/sh"); !strings.Contains(link, "/bin/busybox") {
		t.Errorf("sh: %s", link)
	}
	if home := ask(t, image, "stat /home/user"); !strings.Contains(home, "User:  1000") {
		t.Errorf("home: %s", home)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || len(lines) == 0 {
		t.Errorf("left %v, said %q", entries, lines)
	}
}

func TestHelperThatFailsSaysWhy(t *testing.T) {
	_, err := Self().Make(t.Context(), mini(filepath.Join(t.TempDir(), "missing")), func(string) {})
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("got %v", err)
	}
}

func TestCancelledHelperIsGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Self().Make(ctx, mini(t.TempDir()), func(string) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
}

func TestUnknownRecipe(t *testing.T) {
	if _, err := Find("nope"); err == nil {
		t.Fatal("no error")
	}
}
