package kernel

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A kernel that was taken out of its package before guests needed a further module is taken out again.
func TestATreeWithoutTheModulesOfTodayIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]struct {
		wanted []string
		err    error
	}{"old": {guestModules[:1], fs.ErrNotExist}, "today's": {guestModules, nil}} {
		made := filepath.Join(dir, cloudPrefix+"1")
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
		record, err := json.Marshal(tree{Version: "1", Wanted: want.wanted})
		if err != nil {
			t.Fatal(err)
		}
		for file, b := range map[string][]byte{"vmlinux": nil, treeRecord: record} {
			if err := os.WriteFile(filepath.Join(made, file), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := findCloud(Options{Dir: dir}); !errors.Is(err, want.err) {
			t.Errorf("%s: %v, want %v", name, err, want.err)
		}
	}
}
