package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/guest/account"
)

// maxTerminal is the most rows or columns.
const maxTerminal = 1000

// ErrSize is a terminal's size out of its limits.
var ErrSize = fmt.Errorf("a terminal has 1 to %d rows and columns", maxTerminal)

// ErrNoTerminal is returned by Resize for a session without one.
var ErrNoTerminal = errors.New("the session has no terminal")

// Size is a terminal's.
type Size struct{ Rows, Cols uint32 }

func (s Size) check() error {
	if s.Rows < 1 || s.Rows > maxTerminal || s.Cols < 1 || s.Cols > maxTerminal {
		return ErrSize
	}
	return nil
}

// openTerminal makes a terminal of a size: the end that the agent has, and the command's, which belongs to the user. The command's end is
// opened through the agent's, so that no path in the machine matters but that of ptmx.
func openTerminal(size Size, user account.Account) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	fd := -1
	err = control(master, func(m int) error {
		if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			return errno
		}
		fd = int(peer)
		return setSize(m, size)
	})
	if fd >= 0 {
		slave = os.NewFile(uintptr(fd), "terminal")
	}
	if err == nil {
		err = unix.Fchown(fd, int(user.UID), -1)
	}
	if err != nil {
		slave.Close() // nil is refused, nothing more
		return nil, nil, err
	}
	return master, slave, nil
}

func setSize(master int, s Size) error {
	return unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(s.Rows), Col: uint16(s.Cols)})
}

// control calls f with a file's descriptor, which stays open meanwhile.
func control(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var called error
	if err := raw.Control(func(fd uintptr) { called = call(int(fd)) }); err != nil {
		return err
	}
	return called
}

// endOfFile is what a terminal takes for the end of its input, by default.
const endOfFile = 4

// finishEvery is how often a terminal's end of input is told again.
const finishEvery = 250 * time.Millisecond

// finishTerminal ends a terminal's input. In the middle of a line the first sign only sends the line. A sign that comes while a program turns
// the terminal from lines to keys or back (a shell does around each command) is lost, so it's told until the command has ended: whoever reads
// then finds the end.
func finishTerminal(master *os.File, last byte, ended <-chan struct{}) {
	signs := []byte{endOfFile, endOfFile}
	if last == '\n' || last == '\r' {
		signs = signs[:1]
	}
	again := time.NewTicker(finishEvery)
	defer again.Stop()
	for {
		if _, err := master.Write(signs); err != nil {
			return
		}
		select {
		case <-again.C:
			signs = signs[:1]
		case <-ended:
			return
		}
	}
}
