// Package boot makes a machine usable from its first process: it loads modules, mounts what a container image expects, and moves
// the root to the disk.
//
// It runs from the initramfs. If there is a disk, /dev/vda, that becomes the root, and nothing of the agent can be seen on it; without one the
// initramfs stays the root, which is enough for a probe.
package boot

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/guest/machine"
	"github.com/space-platform/space/internal/guest/serial"
)

// portWait is how long the link's port may take to appear after its driver was loaded.
const portWait = 10 * time.Second

// openFiles are the limits that sessions start with, as under a container runtime.
var openFiles = syscall.Rlimit{Cur: 65536, Max: 1 << 20}

// processName is what ps shows for the first process.
const processName = "spaced-guest"

// Machine is what Run has prepared.
type Machine struct {
	Port     io.ReadWriteCloser
	Freezer  *machine.Freezer // nil if the kernel has no version 2 cgroups, as Sessions
	Sessions *os.File         // the open directory of the sessions' cgroup
	Covers   machine.Covers
}

// Run boots. The link's port is opened before the root moves, so that it's there whatever the image looks like.
func Run() (*Machine, error) {
	ignoreSignals()
	unix.Umask(0o022)
	if err := mountKernel("/"); err != nil {
		return nil, err
	}
	if err := loadModules(moduleDir); err != nil {
		return nil, err
	}
	port, err := serial.Open(portWait)
	if err != nil {
		return nil, err
	}
	if err := enterDisk(); err != nil {
		return nil, err
	}
	if err := mountImage(); err != nil {
		return nil, err
	}
	if err := protect(); err != nil {
		return nil, err
	}
	if err := loopbackUp(); err != nil {
		return nil, err
	}
	m := &Machine{Port: port, Covers: coverNames()}
	m.Freezer, m.Sessions = makeCgroups()
	return m, nil
}

// ignoreSignals keeps the first process alive when somebody in the machine sends it a signal. They are caught, not ignored: children
// would inherit that.
func ignoreSignals() {
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT)
}

// protect closes the first process's memory to others and sets what its children inherit. The kernel never kills the
// first process for memory, so it needs no score for that, which children would inherit.
func protect() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("set dumpable: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &openFiles); err != nil {
		return fmt.Errorf("set the limit of open files: %w", err)
	}
	if err := os.WriteFile("/proc/self/comm", []byte(processName), 0); err != nil {
		return fmt.Errorf("set the process name: %w", err)
	}
	return nil
}

// Halt says why the machine can't go on, on the console if there is one, and ends it: each VMM is told to end when its guest restarts, while not
// every machine has a way to switch itself off.
func Halt(err error) {
	fmt.Fprintf(os.Stderr, "spaced-guest: %v\n", err)
	if console, openErr := os.OpenFile("/dev/console", os.O_WRONLY, 0); openErr == nil {
		fmt.Fprintf(console, "spaced-guest: %v\n", err)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	unix.Reboot(unix.LINUX_REBOOT_CMD_HALT)
}
