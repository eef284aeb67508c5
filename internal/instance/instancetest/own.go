// Package instancetest lends tests an instance of their own: a name and a slot that no platform and no other test on the machine has at
// the same time, so that two checkouts may be tested side by side.
package instancetest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// Own returns an instance that only this test has until it ends.
func Own(t testing.TB) instance.Instance {
	t.Helper()
	i, release, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return i
}

// Hold is Own for a TestMain. The slot is one of those that instance.Claim never gives away, and is held by a lock until release is called
// or the process dies.
func Hold() (_ instance.Instance, release func(), err error) {
	for slot := instance.MaxSlots - instance.TestSlots; slot < instance.MaxSlots; slot++ {
		lock, err := os.OpenFile(fmt.Sprintf("/run/lock/space-test-slot-%d", slot), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return instance.Instance{}, nil, fmt.Errorf("take a slot for tests: %w", err)
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			return instance.Instance{Name: fmt.Sprintf("test%d", slot), Slot: slot}, func() { lock.Close() }, nil
		}
		lock.Close()
	}
	return instance.Instance{}, nil, fmt.Errorf("take a slot for tests: all %d are taken", instance.TestSlots)
}
