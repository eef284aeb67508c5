package rootfs

import "testing"

func TestVolumesAreFoundAmongMounts(t *testing.T) {
	for line, want := range map[string]string{
		`36 35 0:48 / /var/lib/space/a\040b/volume rw,nosuid shared:1 - btrfs /dev/loop3 rw,space_cache=v2`: "/var/lib/space/a b/volume",
		`36 35 0:48 / /data rw shared:1 - btrfs /dev/sda1 rw`:                                               "",
		`36 35 7:3 / /snap rw shared:1 - squashfs /dev/loop3 ro`:                                            "",
		`36 35`: "",
		``:      "",
	} {
		if got, ok := volumePoint(line); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", line, got, ok)
		}
	}
}
