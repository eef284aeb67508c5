package session

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstRealtime is the first signal without a name of its own.
const firstRealtime = 34

// signalName returns the name of a signal, as SIGKILL or SIGRTMIN+2.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	if n >= firstRealtime {
		return fmt.Sprintf("SIGRTMIN+%d", n-firstRealtime)
	}
	return fmt.Sprintf("signal %d", n)
}
