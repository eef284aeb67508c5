package image

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestEnsureMakesWhatIsMissing(t *testing.T) {
	tree, root := newTree(t, DefaultLimits)
	if err := applyAll(t, tree, pack(t, folder("usr"), symlink("srv", "/usr"), file("f", "1"), symlink("up", "usr/../usr"), symlink("out", "usr"), file("etc/hosts", "own"))); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "proc", "/srv/app/x", "up", "srv"} {
		if err := tree.EnsureDir(path, 0o711); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"etc/hosts", "/etc/resolv.conf", "srv/note"} {
		if err := tree.EnsureFile(path, "new", 0o644); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"f", "f/x", "../x"} {
		var e *Error
		if err := tree.EnsureDir(path, 0o755); !errors.As(err, &e) {
			t.Errorf("%s: %v", path, err)
		}
	}
	got := listing(t, root)
	for path, want := range map[string]string{"proc": "dir", "usr/app/x": "dir", "etc/hosts": "own", "etc/resolv.conf": "new", "usr/note": "new"} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
	}
	if info, err := os.Stat(filepath.Join(root, "usr/app/x")); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}
}
