package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/durable"
)

type record struct{ Name string }

func TestJSONRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	want := record{Name: "sbx"}
	if err := durable.WriteJSON(path, want, 0o640); err != nil {
		t.Fatal(err)
	}
	var got record
	if err := durable.ReadJSON(path, 1<<10, &got); err != nil || got != want {
		t.Errorf("ReadJSON = %+v, %v, want %+v", got, err, want)
	}
}

func TestReadingIsBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := durable.WriteJSON(path, record{Name: "0123456789"}, 0o600); err != nil {
		t.Fatal(err)
	}
	var r record
	if err := durable.ReadJSON(path, 10, &r); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("a file above the limit: %v, want ErrTooLarge", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(link, 1<<10, &r); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a symbolic link: %v, want ELOOP", err)
	}
	if err := durable.WriteFile(path, []byte("{} {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.ReadJSON(path, 1<<10, &r); err == nil {
		t.Error("two values in a file were accepted")
	}
}

func TestAFullDiskKeepsTheOldContent(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	path := filepath.Join(dir, "r")
	if err := durable.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, make([]byte, 128<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("WriteFile on a full disk = %v, want ENOSPC", err)
	}
	if b, err := durable.ReadFile(path, 10); err != nil || string(b) != "old" {
		t.Errorf("content = %q, %v, want old", b, err)
	}
}

func TestDirectoriesAndNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	for range 2 {
		if err := durable.Mkdir(dir, 0o2770); err == nil {
			continue
		} else {
			t.Fatal(err)
		}
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(filepath.Dir(dir), "b")
	if err := durable.WriteFile(a, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.Mkdir(a, 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir over a file = %v", err)
	}
	if err := durable.Rename(a, b); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := durable.Remove(b); err != nil {
			t.Fatal(err)
		}
	}
}
