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

// What a terminal's user types, by default, for the end of the input and to take a line back.
const (
	endOfFile = 4
	killLine  = 21
)

// How often a terminal's end of input is told again: at first, and at last.
const (
	finishFirst = 250 * time.Millisecond
	finishMost  = 4 * time.Second
)

// finishTerminal ends a terminal's input. In the middle of a line the first sign only sends the line. A sign that comes while a program turns
// the terminal from lines to keys or back (a shell does around each command) is lost, so it's told until the command has ended: whoever reads
// then finds the end. A sign for lines that is read as a key is a zero byte, which an editor of lines takes for text, and an end for none in the
// middle of a line: so what stands in the line is taken back first.
func finishTerminal(master *os.File, last byte, ended <-chan struct{}) {
	signs := []byte{endOfFile, endOfFile}
	if last == '\n' || last == '\r' {
		signs = signs[:1]
	}
	for wait := finishFirst; ; wait = min(2*wait, finishMost) {
		if _, err := master.Write(signs); err != nil {
			return
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ended:
			again.Stop()
			return
		}
		signs = []byte{endOfFile}
		if keys(master) {
			signs = []byte{killLine, endOfFile}
		}
	}
}

// keys tells whether whoever reads a terminal gets each key as it comes. A terminal that doesn't say is taken for one of lines.
func keys(master *os.File) (yes bool) {
	err := control(master, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		yes = err == nil && t.Lflag&unix.ICANON == 0
		return err
	})
	return yes && err == nil
}
