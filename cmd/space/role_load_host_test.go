//go:build load

package main

import (
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/fake"
	"github.com/space-platform/space/internal/host/vmm/vmmtest"
)

// TestMachinesInsideConform holds the machines that cost nothing to the contract of all others.
func TestMachinesInsideConform(t *testing.T) {
	d, err := fake.NewInside(serveInside())
	if err != nil {
		t.Fatal(err)
	}
	vmmtest.Run(t, vmmtest.Fixture{Driver: d, Shape: vmm.Shape{VCPUs: 1, MemoryBytes: 1 << 20}, Inside: true, Enclosure: vmmtest.Enclosure})
}
