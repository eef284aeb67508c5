package jail

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
)

// TestHowFarFilesMayBeWritten: as far as a program needs, which says so or has a file that is that large.
func TestHowFarFilesMayBeWritten(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, 1<<30); err != nil {
		t.Fatal(err)
	}
	bind := func(writable bool) map[string]vmm.Source {
		return map[string]vmm.Source{"/disk": {Path: disk, Writable: writable}}
	}
	for name, c := range map[string]struct {
		command vmm.Command
		want    uint64
	}{
		"says nothing":             {vmm.Command{}, 256 << 20},
		"says little":              {vmm.Command{FileBytes: 64 << 10}, 64 << 10},
		"reads a large one":        {vmm.Command{FileBytes: 64 << 10, Bind: bind(false)}, 64 << 10},
		"writes a large one":       {vmm.Command{FileBytes: 64 << 10, Bind: bind(true)}, 1 << 30},
		"has a small one and more": {vmm.Command{FileBytes: 2 << 30, Bind: bind(true)}, 2 << 30},
	} {
		if got := limitsFor(c.command).fileBytes; got != c.want {
			t.Errorf("one that %s may write %d bytes, want %d", name, got, c.want)
		}
	}
}
