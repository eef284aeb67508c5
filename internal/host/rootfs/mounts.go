package rootfs

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ownMounts cuts the helper's mounts off from the machine's, shows it its own processes only, and lets it run programs and use devices in
// its directory, which the volume's mount forbids.
func ownMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil { // what the machine unmounts isn't held here
		return fmt.Errorf("cut the helper's mounts off: %w", err)
	}
	if err := leaveVolumes(dir); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount the helper's /proc: %w", err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount the helper's directory: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("allow programs in the helper's directory: %w", err)
	}
	return nil
}

// leaveVolumes lets go of other platforms' volumes. mmdebstrap takes a copy of all mounts, which no longer follows the machine's, and would hold them for
// as long as it works.
func leaveVolumes(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look at the helper's mounts: %w", err)
	}
	defer f.Close()
	var others []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if point, ok := volumePoint(lines.Text()); ok && !strings.HasPrefix(dir+"/", strings.TrimSuffix(point, "/")+"/") {
			others = append(others, point)
		}
	}
	for _, point := range others {
		unix.Unmount(point, unix.MNT_DETACH) // one that's gone meanwhile needs none
	}
	return nil
}

// volumePoint returns where a line of mountinfo has a btrfs from a loop device mounted.
func volumePoint(line string) (string, bool) {
	before, after, ok := strings.Cut(line, " - ")
	f, source := strings.Fields(before), strings.Fields(after)
	if !ok || len(f) < 5 || len(source) < 2 || source[0] != "btrfs" || !strings.HasPrefix(source[1], "/dev/loop") {
		return "", false
	}
	return unescape.Replace(f[4]), true
}

// unescape undoes how mountinfo writes paths.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
