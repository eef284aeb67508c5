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

// The variables of the environment that tests of drivers read.
const (
	kindVariable   = "SPACE_TEST_KERNEL"     // the kind of kernel that machines boot; "" for Debian's, so that a test doesn't depend on what was built on its machine
	kernelVariable = "SPACE_TEST_KERNEL_DIR" // where kernels are kept; "" for the checkout's build directory
	guestVariable  = "SPACE_TEST_GUEST"      // a compiled spaced-guest, for a machine that can't compile one
)

// Guest compiles spaced-guest, unless there is one, and returns its path.
func Guest(t testing.TB) string {
	t.Helper()
	if path := os.Getenv(guestVariable); path != "" {
		return path
	}
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

// Kernel prepares what machines boot.
func Kernel(t testing.TB) kernel.Files {
	t.Helper()
	return KernelOf(t, cmp.Or(kernel.Kind(os.Getenv(kindVariable)), kernel.Cloud))
}

// KernelOf prepares a kernel of a kind.
func KernelOf(t testing.TB, kind kernel.Kind) kernel.Files {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), prepareLimit)
	defer cancel()
	files, err := kernel.Prepare(ctx, kernel.Options{
		Dir: KernelDir(t), Guest: Guest(t), Kind: kind,
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// KernelDir is where kernels are kept.
func KernelDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(kernelVariable); dir != "" {
		return dir
	}
	return filepath.Join(checkout(t), "build", "kernel")
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
