package seal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTreesAreToldApart by names, lengths, kinds and what is in their files.
func TestTreesAreToldApart(t *testing.T) {
	seen := map[string]string{}
	for name, files := range map[string]map[string]string{
		"none": {}, "empty": {"a": ""}, "a": {"a": "x"}, "b": {"b": "x"}, "longer": {"a": "x\x00"}, "two": {"a": "x", "b": ""}, "deeper": {"a/b": "x"}, "beside": {"a": "", "b": "x"},
	} {
		dir := t.TempDir()
		for file, text := range files {
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		info, err := Tree(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Tree(t.Context(), dir); err != nil || again != info {
			t.Errorf("%s is %+v, then %+v, %v", name, info, again, err)
		}
		if other, ok := seen[info.SHA256]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[info.SHA256] = name
	}
}

func TestATreeOfOtherThingsIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if _, err := Tree(t.Context(), dir); err == nil {
		t.Error("a link was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(os.Remove(filepath.Join(dir, "a")), os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Tree(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("it was read on: %v", err)
	}
}
