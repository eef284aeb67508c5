package thread

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// maxCapability is above the last one of any kernel; the kernel says where they end.
const maxCapability = 63

// DropPrivileges keeps what the calling thread executes from ever having a capability, but for those to keep, or gaining one. The
// thread itself has what it has until then.
func DropPrivileges(keep ...uintptr) error {
	for c := range uintptr(maxCapability + 1) {
		if slices.Contains(keep, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}
