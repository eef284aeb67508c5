package jail

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// maxCapability is above the last one of any kernel; the kernel says where they end.
const maxCapability = 63

// dropPrivileges keeps the calling thread's children from ever having a capability or gaining one. The thread itself keeps what it has
// until the fork, where the change of uid takes it away.
func dropPrivileges() error {
	for c := range uintptr(maxCapability + 1) {
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
