//go:build !load

package main

import (
	"strings"
	"testing"

	"github.com/space-platform/space/internal/instance"
)

// TestMachinesThatRunKeepTheirDriver: a daemon that starts again doesn't look for a better driver, unless the operator names another one.
func TestMachinesThatRunKeepTheirDriver(t *testing.T) {
	for want, c := range map[string]instance.Config{
		"make the firecracker driver": {Firecracker: "/nowhere/firecracker", Jailer: "/nowhere/jailer"},
		`driver "other" is unknown`:   {Driver: "other"},
	} {
		if d, err := chooseDriver(t.Context(), instance.Instance{}, c, "firecracker", "/nowhere/space"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, %v, want %q", c, d, err, want)
		}
	}
}
