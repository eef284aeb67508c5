package selftest_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

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

// deaf is a driver of which the first guests that are dialled don't answer.
type deaf struct {
	vmm.Driver
	guests int
}

func (d *deaf) Boot(ctx context.Context, e vmm.Enclosure, b vmm.Boot) (vmm.Machine, error) {
	m, err := d.Driver.Boot(ctx, e, b)
	return &deafGuest{m, d}, err
}

type deafGuest struct {
	vmm.Machine
	driver *deaf
}

func (g *deafGuest) DialGuest(ctx context.Context) (net.Conn, error) {
	if g.driver.guests == 0 {
		return g.Machine.DialGuest(ctx)
	}
	g.driver.guests--
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAGuestThatDoesNotComeUp is followed by another one, which may.
func TestAGuestThatDoesNotComeUp(t *testing.T) {
	for guests, works := range map[int]bool{1: true, 2: false} {
		d, err := fake.New(vmmtest.Guest(t))
		if err != nil {
			t.Fatal(err)
		}
		open, dir := 0, t.TempDir()
		test := selftest.Test{Driver: &deaf{d, guests}, Dir: dir, Enclose: plain(t, &open), Patience: 500 * time.Millisecond}
		if guests == 1 {
			test.Patience = 3 * time.Second // the second one takes a moment on a busy machine
		}
		if err := test.Run(t.Context()); (err == nil) != works {
			t.Errorf("of the first %d: %v", guests, err)
		}
		nothingLeft(t, dir, open)
	}
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
