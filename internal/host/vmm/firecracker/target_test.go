package firecracker_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheTargetSaysWhatItLacks has 'make test-firecracker' end with 3 before it does anything when one of its programs isn't one.
func TestTheTargetSaysWhatItLacks(t *testing.T) {
	good := install(t, "1.16.1", "1.16.1")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for paths, want := range map[[2]string][]string{
		{"", ""}:             {"FIRECRACKER isn't set", "JAILER isn't set"},
		{good.Program, ""}:   {"JAILER isn't set"},
		{plain, good.Jailer}: {"FIRECRACKER=" + plain + " isn't a program"},
		{filepath.Dir(plain), plain + ".missing"}: {" isn't a program", "JAILER=" + plain + ".missing isn't a program"},
		{good.Jailer, good.Jailer}:                {"FIRECRACKER=" + good.Jailer + " doesn't say that it's Firecracker"},
	} {
		c := exec.CommandContext(t.Context(), "../../../../hack/test-firecracker")
		c.Env = append(os.Environ(), "FIRECRACKER="+paths[0], "JAILER="+paths[1])
		out, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 {
			t.Errorf("%q: %v, want exit status 3; %s", paths, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		for i, line := range want {
			if len(lines) != len(want)+1 || !strings.HasPrefix(lines[i], "error: ") || !strings.HasSuffix(lines[i], line) {
				t.Errorf("%q: it says %q, want %q and how it's called", paths, lines, want)
			}
		}
	}
}
