package qemu

import (
	"errors"
	"testing"

	"github.com/space-platform/space/internal/host/vmm"
)

func TestAManifestFitsItsOwnHost(t *testing.T) {
	d := &Driver{config: Config{Acceleration: "tcg"}, version: version{7, 2, 22}, tscKHz: 2_596_140}
	m := d.manifest(line())
	if err := m.Fits(d.manifest(line())); err != nil {
		t.Error(err)
	}
	near := m
	near.TSCKHz += 100 // 40 in a million: another measurement
	if err := near.Fits(m); err != nil {
		t.Error(err)
	}
	far := m
	far.TSCKHz -= 2000
	if err := far.Fits(m); !errors.Is(err, vmm.ErrIncompatible) {
		t.Errorf("another counter: %v", err)
	}
	l := line()
	l.MAC = ""
	if err := m.Fits(d.manifest(l)); !errors.Is(err, vmm.ErrIncompatible) {
		t.Errorf("one device less: %v", err)
	}
}

func TestVersions(t *testing.T) {
	v, err := parseVersion([]byte("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright"))
	if err != nil || v != (version{7, 2, 22}) || v.String() != "7.2.22" {
		t.Errorf("parseVersion = %v, %v", v, err)
	}
	if _, err := parseVersion([]byte("qemu: not found")); err == nil {
		t.Error("no version was found in nonsense")
	}
	for _, c := range []struct {
		v    version
		want bool
	}{{version{7, 2, 22}, false}, {version{8, 1, 9}, false}, {version{8, 2, 0}, true}, {version{10, 0, 2}, true}} {
		if got := c.v.atLeast(8, 2); got != c.want {
			t.Errorf("%s at least 8.2: %v", c.v, got)
		}
	}
}
