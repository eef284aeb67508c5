package vmmtest

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/space-platform/space/internal/host/kernel"
)

// prepareLimit bounds what a test's first run does: download a kernel of 26 MB, and compile a small program.
const prepareLimit = 5 * time.Minute

// Guest compiles spaced-guest and returns its path.
func Guest(t testing.TB) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prepareLimit)
	defer cancel()
	path := filepath.Join(t.TempDir(), "spaced-guest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/spaced-guest")
	build.Dir = checkout(t)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile spaced-guest: %v: %s", err, out)
	}
	return path
}

// kindVariable is the variable of the environment that names the kind of kernel that machines boot in tests.
const kindVariable = "SPACE_TEST_KERNEL"

// Kernel prepares what machines boot: Debian's kernel, or what SPACE_TEST_KERNEL names, so that a test doesn't depend on what was built
// on its machine.
func Kernel(t testing.TB) kernel.Files {
	t.Helper()
	return KernelOf(t, cmp.Or(kernel.Kind(os.Getenv(kindVariable)), kernel.Cloud))
}

// KernelOf prepares a kernel of a kind, which is kept in the checkout's build directory.
func KernelOf(t testing.TB, kind kernel.Kind) kernel.Files {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prepareLimit)
	defer cancel()
	files, err := kernel.Prepare(ctx, kernel.Options{
		Dir: filepath.Join(checkout(t), "build", "kernel"), Guest: Guest(t), Kind: kind,
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// checkout is the directory of the module.
func checkout(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("find the checkout: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}
