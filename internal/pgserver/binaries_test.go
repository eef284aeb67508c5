package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestBinariesFollowTheDataAndElseAreTheNewest(t *testing.T) {
	root, data := t.TempDir(), t.TempDir()
	if _, err := Binaries(root, data); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("nothing installed: %v, want ErrNotInstalled", err)
	}
	for _, v := range []string{"9", "15", "15.old"} {
		install(t, filepath.Join(root, v, "bin"), "postgres", "initdb")
	}
	install(t, filepath.Join(root, "17", "bin"), "psql") // a client only
	for _, c := range []struct{ version, want string }{{"", "15"}, {"9\n", "9"}, {"8\n", "15"}} {
		if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(c.version), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Binaries(root, data); err != nil || got != filepath.Join(root, c.want, "bin") {
			t.Errorf("data of version %q: %s, %v; want version %s", c.version, got, err, c.want)
		}
	}
}

func install(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
