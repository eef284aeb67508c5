package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestFailureTable makes each step of a write fail, and says what must be there afterwards.
func TestFailureTable(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		step string
		fail func(c *calls)
		want string // the content afterwards
	}{
		{"create", func(c *calls) { c.create = func(string, fs.FileMode) (*os.File, error) { return nil, boom } }, "old"},
		{"write", func(c *calls) {
			c.write = func(f *os.File, b []byte) (int, error) { n, _ := f.Write(b[:1]); return n, boom }
		}, "old"},
		{"sync", func(c *calls) { c.sync = func(*os.File) error { return boom } }, "old"},
		{"close", func(c *calls) { c.close = func(f *os.File) error { f.Close(); return boom } }, "old"},
		{"rename", func(c *calls) { c.rename = func(string, string) error { return boom } }, "old"},
		{"sync directory", func(c *calls) { c.syncDir = func(string) error { return boom } }, "new"},
	} {
		t.Run(row.step, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "record")
			if err := WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			c := kernel
			row.fail(&c)
			if err := c.replace(path, []byte("new"), 0o600); !errors.Is(err, boom) {
				t.Fatalf("replace = %v, want the step's error", err)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != row.want {
				t.Errorf("content = %q, %v, want %q", b, err, row.want)
			}
			if _, err := os.Lstat(path + newSuffix); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a temporary file is left: %v", err)
			}
			if err := WriteFile(path, []byte("next"), 0o600); err != nil {
				t.Errorf("the next write: %v", err)
			}
		})
	}
}

// TestACutOffWriteIsReplaced stands for a crash between create and rename.
func TestACutOffWriteIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := kernel.fill(path+newSuffix, []byte("half of a much longer content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("ReadFile before the first whole write = %v", err)
	}
	if err := WriteFile(path, []byte("whole"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := ReadFile(path, 5)
	if err != nil || string(b) != "whole" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

// TestWhatIsPreparedIsntThereYet: until it's published the file is as it was, and another write may come first.
func TestWhatIsPreparedIsntThereYet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := WriteJSON(path, "old", 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := PrepareJSON(path, "new", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old", "new"} {
		var got string
		if err := ReadJSON(path, 100, &got); err != nil || got != want {
			t.Errorf("the file has %q, %v, want %q", got, err, want)
		}
		if want == "old" {
			err = p.Publish()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
