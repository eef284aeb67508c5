package fake_test

import (
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

func TestConformance(t *testing.T) {
	d, err := fake.New(vmmtest.Guest(t))
	if err != nil {
		t.Fatal(err)
	}
	vmmtest.Run(t, vmmtest.Fixture{
		Driver: d, Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 1 << 20}, Enclosure: vmmtest.Enclosure,
	})
}
