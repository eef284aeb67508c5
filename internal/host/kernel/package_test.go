package kernel

import (
	"slices"
	"testing"
)

func TestParsePackage(t *testing.T) {
	const record = `Package: linux-image-cloud-amd64
Version: 6.1.192-3
Provides: linux-latest-modules-6.1.0-57-cloud-amd64
Depends: linux-image-6.1.0-57-cloud-amd64 (= 6.1.192-3)
Description: Linux for x86-64 cloud (meta-package)
`
	p, err := parsePackage([]byte(record))
	want := debPackage{name: "linux-image-6.1.0-57-cloud-amd64", version: "6.1.192-3"}
	if err != nil || p != want {
		t.Errorf("parsePackage = %+v, %v, want %+v", p, err, want)
	}
	if p.release() != "6.1.0-57-cloud-amd64" {
		t.Errorf("release %q", p.release())
	}
	for _, bad := range []string{"", "Package: x\n", "Depends: linux-image-6.1 (>= 1)\n", "Depends: ../../etc (= 1)\n", "Depends: linux-image-6.1 (= 1/../2)\n"} {
		if p, err := parsePackage([]byte(bad)); err == nil {
			t.Errorf("parsePackage(%q) = %+v, want an error", bad, p)
		}
	}
}

func TestParseDepends(t *testing.T) {
	for info, want := range map[string][]string{
		"license=GPL\x00depends=virtio_ring,net-failover\x00name=x\x00": {"virtio_ring", "net_failover"},
		"license=GPL\x00depends=\x00":                                   nil,
		"":                                                              nil,
	} {
		if got := parseDepends([]byte(info)); !slices.Equal(got, want) {
			t.Errorf("parseDepends(%q) = %v, want %v", info, got, want)
		}
	}
}
