package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRootWritesForTheOwnerOfTheHome: 'sudo space up' leaves a file that its user can read.
func TestRootWritesForTheOwnerOfTheHome(t *testing.T) {
	const nobody = 65534
	home := t.TempDir()
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"HOME": home}[name] }
	if err := Remember(getenv, "demo", Entry{URL: "http://127.0.0.1:7700", APIKey: "space_x"}); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{".config": 0o700, ".config/space": 0o700, ".config/space/config.toml": 0o600} {
		st, err := os.Stat(filepath.Join(home, path))
		if err != nil {
			t.Fatal(err)
		}
		if uid := st.Sys().(*syscall.Stat_t).Uid; uid != nobody || st.Mode().Perm() != mode {
			t.Errorf("%s belongs to %d with mode %s, want %d and %s", path, uid, st.Mode().Perm(), nobody, mode)
		}
	}
	if e, _, err := Known(getenv, "demo"); err != nil || e.APIKey != "space_x" {
		t.Errorf("known: %+v, %v", e, err)
	}
	if err := Forget(getenv, "demo"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, ".config/space")); err == nil {
		t.Error("the last instance was forgotten and its file is still there")
	}
}
