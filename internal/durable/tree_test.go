package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestSyncTree(t *testing.T) {
	dir := t.TempDir()
	if err := SyncTree(t.Context(), filepath.Join(dir, "none")); err != nil {
		t.Errorf("of no directory: %v", err)
	}
	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/mem", filepath.Join(deep, "link")); err != nil {
		t.Fatal(err)
	}
	if err := SyncTree(t.Context(), dir); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("too late")
	cancel(why)
	if err := SyncTree(ended, dir); !errors.Is(err, why) {
		t.Errorf("after its end: %v", err)
	}
}
