//go:build vm

package host_test

import (
	"syscall"
	"testing"
	"time"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/peer"
)

// silentGuest stops a machine under its guest: who attaches learns that it doesn't answer, and nothing is lost when it goes on.
func silentGuest(t *testing.T, r *rig, mini string) {
	route := r.route()
	r.ensure(mini, route)
	machines := r.machines()
	for _, pid := range machines {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	c, begun := r.client(route, "/bin/echo", "late"), time.Now()
	err := peer.FromConnect(c.attach(t.Context(), func(int) {}))
	if took := time.Since(begun); space.CodeOf(err) != space.CodeGuest || took < 10*time.Second || took > 25*time.Second {
		t.Errorf("after %s: %v", took, err)
	}
	for _, pid := range machines {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.attach(t.Context(), func(int) {}); err != nil || string(c.data) != "late\n" || c.last.GetExit() == nil {
		t.Errorf("got %q, then %v, %v", c.data, c.last, err)
	}
	r.remove(route)
}
