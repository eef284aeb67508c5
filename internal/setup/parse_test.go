package setup

import (
	"slices"
	"testing"
)

func TestMountPoints(t *testing.T) {
	const mountinfo = `22 1 0:21 / /proc rw - proc proc rw
36 35 98:0 / /var/lib/space/demo/spaced-host/volume rw - btrfs /dev/loop0 rw
37 36 98:0 / /var/lib/space/demo/spaced-host/volume/a\040b\134c rw - tmpfs none rw
38 35 98:0 / /var/lib/space/demo2/x rw - tmpfs none rw
short
`
	want := []string{"/var/lib/space/demo/spaced-host/volume", `/var/lib/space/demo/spaced-host/volume/a b\c`}
	if got := mountPoints(mountinfo, []string{"/var/lib/space/demo", "/run/space/demo"}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNotInstalled(t *testing.T) {
	const said = "btrfs-progs installed\nkmod config-files\nqemu-system-x86-extra installed\n"
	want := []string{"kmod", "qemu-system-x86"}
	if got := notInstalled([]string{"btrfs-progs", "kmod", "qemu-system-x86"}, said); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDeepestFirst(t *testing.T) {
	got := []string{"/a", "/a/b/c", "/a/d", "/a/b"}
	slices.SortFunc(got, deepestFirst)
	if want := []string{"/a/b/c", "/a/b", "/a/d", "/a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
