package setup

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBinaryIsReplacedOnlyByAnother(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "build"), filepath.Join(dir, "installed")
	stat := func() os.FileInfo {
		st, err := os.Stat(to)
		must(t, err)
		return st
	}
	must(t, os.WriteFile(from, []byte("one"), 0o644))
	must(t, ensureBinary(from, to))
	first := stat()
	if first.Mode() != 0o755 {
		t.Errorf("mode %s, want 0755", first.Mode())
	}
	must(t, ensureBinary(from, to))
	if !os.SameFile(first, stat()) {
		t.Error("the same binary was written again")
	}
	must(t, os.WriteFile(from, []byte("two"), 0o644))
	must(t, ensureBinary(from, to))
	if os.SameFile(first, stat()) {
		t.Error("another binary was written over a running one")
	}
}
