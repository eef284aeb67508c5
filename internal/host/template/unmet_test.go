package template

import (
	"context"
	"net"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/vmm"
)

// stillborn is a machine that ends before its guest answers.
type stillborn struct{ vmm.Machine }

func (stillborn) DialGuest(context.Context) (net.Conn, error) { return nil, vmm.ErrGone }
func (stillborn) LastWords() string                           { return "what it said" }
func (stillborn) Close() error                                { return nil }
func (stillborn) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// TestMachineThatDoesntComeUpIsTriedOnceMore: a build is long, and shouldn't fail for what happens to one machine of many.
func TestMachineThatDoesntComeUpIsTriedOnceMore(t *testing.T) {
	for _, c := range []struct{ dead, unmet int }{{0, 1}, {0, 2}, {0, 3}, {1, 0}, {2, 0}, {1, 2}} {
		r, id := newRig(t), space.NewID(space.PrefixTemplate)
		r.dead, r.unmet = c.dead, c.unmet
		r.put(mini(id), func(m *manifest) { m.Sources.Kernel = "old" }) // so it's made anew
		s := r.open(rootfs.Self())
		r.await(s, Ready) // it stays as it was
		if r.boots != 2 {
			t.Errorf("of %+v that don't come up %d booted", c, r.boots)
		}
		if err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
		r.checkNothingLeft(s)
	}
}
