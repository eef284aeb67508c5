//go:build vm && long

package qemu_test

import (
	"testing"

	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// TestLongIdentity has fifty clones of processes that read random numbers, clock and boot id.
func TestLongIdentity(t *testing.T) {
	const clones = 50
	vmmtest.Identity(t, fixture(t, vmmtest.Kernel(t), vmmtest.Enclosure), clones)
}
