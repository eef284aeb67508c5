package pager

import (
	"errors"
	"os"
	"strings"
)

// Device is from where an ordinary user gets a userfaultfd that answers the faults of KVM, too.
const Device = "/dev/userfaultfd"

// ErrUnavailable says that this kernel lets no VMM of an ordinary user have its page faults answered.
var ErrUnavailable = errors.New("the kernel has no userfaultfd for machines: neither " + Device + " (since Linux 6.1) nor vm.unprivileged_userfaultfd=1")

// Available returns ErrUnavailable where no machine's memory can come page by page.
func Available() error {
	if info, err := os.Stat(Device); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		return nil
	}
	if b, err := os.ReadFile("/proc/sys/vm/unprivileged_userfaultfd"); err == nil && strings.TrimSpace(string(b)) == "1" {
		return nil
	}
	return ErrUnavailable
}
