package vmmtest

import (
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
)

// Enclosure makes one that encloses nothing: the test's own uid, namespaces and root directory, and no network.
func Enclosure(t *testing.T) vmm.Enclosure {
	t.Helper()
	return vmm.Enclosure{ID: NextID("exe_"), Dir: t.TempDir(), Starter: NewStarter(t)}
}
