package selftest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/host/vmm/selftest"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// plain makes enclosures that enclose nothing and counts those that weren't removed.
func plain(t *testing.T, open *int) func(context.Context) (vmm.Enclosure, func() error, error) {
	return func(context.Context) (vmm.Enclosure, func() error, error) {
		*open++
		return vmmtest.Enclosure(t), func() error { *open--; return nil }, nil
	}
}

func TestADriverThatWorks(t *testing.T) {
	d, err := fake.New(vmmtest.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	open, dir := 0, t.TempDir()
	if err := (selftest.Test{Driver: d, Dir: dir, Enclose: plain(t, &open)}).Run(t.Context()); err != nil {
		t.Error(err)
	}
	nothingLeft(t, dir, open)
}

func TestADriverThatDoesNot(t *testing.T) {
	d, err := fake.New("/nowhere/spaced-guest")
	if err != nil {
		t.Fatal(err)
	}
	open, dir := 0, t.TempDir()
	err = selftest.Test{Driver: d, Dir: dir, Enclose: plain(t, &open)}.Run(t.Context())
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "test the fake driver: boot and save:") {
		t.Errorf("Run = %v, want the step and the reason", err)
	}
	nothingLeft(t, dir, open)
}

func nothingLeft(t *testing.T, dir string, open int) {
	t.Helper()
	if open != 0 {
		t.Errorf("%d enclosures weren't removed", open)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}
