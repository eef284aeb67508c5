// Package machine changes what a handshake changes in a guest: clock, random generator and name, and lets user processes run again.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// Machine is this machine.
type Machine struct {
	freezer *Freezer // nil: nothing to freeze with
	covers  Covers
	random  *os.File // the kernel's generator, open from the start: nothing in the machine can put another file there
	disk    *os.File // the root directory

	// Of the newest handshake; a link has one at a time.
	execution string
	epoch     uint64
	hostname  string
}

// New returns this machine. f is nil if the kernel has no cgroups to freeze.
func New(f *Freezer, c Covers) (*Machine, error) {
	random, err := os.OpenFile(generator, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the random generator: %w", err)
	}
	disk, err := os.Open("/")
	if err != nil {
		return nil, err
	}
	return &Machine{freezer: f, covers: c, random: random, disk: disk}, nil
}

// Hooks are what a link does to the machine.
func (m *Machine) Hooks() link.Hooks { return link.Hooks{Sync: m.sync, Clock: SetClock} }

// sync does all that must be done before the host gets its answer and before any process goes on, in the order in which it matters, and no more:
// this code runs cold after a restore.
func (m *Machine) sync(s link.Sync) error {
	if err := SetClock(s.Time); err != nil {
		return err
	}
	if err := reseed(m.random, &s.Seed); err != nil {
		return err
	}
	if err := m.identify(s); err != nil {
		return err
	}
	if m.freezer != nil {
		return m.freezer.Thaw()
	}
	return nil
}

// onItsWay is how long a message of the host's may have been under way at most, for its time to be taken as older than what the clock shows.
const onItsWay = time.Second

// SetClock sets the wall clock, forwards. A time that is a little behind it comes from a message that was under way for longer than an earlier one:
// the clock doesn't go back for that, since processes may be reading it. One that is far behind is the host's own change.
func SetClock(t time.Time) error {
	if stale(time.Now(), t) {
		return nil
	}
	spec := unix.NsecToTimespec(t.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &spec); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// stale tells whether a clock that shows now has nothing to learn from a time of the host's.
func stale(now, t time.Time) bool { return !t.After(now) && now.Sub(t) < onItsWay }

// generator is the kernel's.
const generator = "/dev/urandom"

// entropy is struct rand_pool_info.
type entropy struct {
	bits  int32
	bytes int32
	seed  [link.SeedBytes]byte
}

// reseed mixes the seed into the kernel's generator and makes it draw a new key at once: clones of one snapshot had the same.
func reseed(random *os.File, seed *[link.SeedBytes]byte) error {
	fd := random.Fd()
	e := entropy{bits: 8 * link.SeedBytes, bytes: link.SeedBytes, seed: *seed}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&e)))
	e.seed = [link.SeedBytes]byte{}
	if errno != 0 {
		return fmt.Errorf("add entropy: %w", errno)
	}
	if err := unix.IoctlSetInt(int(fd), rndReseed, 0); err != nil {
		return fmt.Errorf("re-seed the generator: %w", err)
	}
	return nil
}

// rndReseed is RNDRESEEDCRNG, _IO('R', 7).
const rndReseed = 0x5207

// WriteOut does what takes long of a Quiesce: it writes all dirty data to the disk, drops what isn't needed, and looks at who is to stop. Nothing stops.
func (m *Machine) WriteOut() {
	unix.Sync()
	runtime.GC()
	if m.freezer != nil {
		m.freezer.Look()
	}
}

// Freeze stops all processes until the next handshake.
func (m *Machine) Freeze() error {
	if m.freezer == nil {
		return nil
	}
	return m.freezer.Freeze()
}

// Quiesce stops all processes until the next handshake and writes all dirty data to the disk: what follows is a pause or a snapshot. It does so while they
// run first, and then with what they wrote meanwhile; only the disk is written to then, since a file system may be served by one of the processes. unwritten
// is why the disk hasn't taken it all, for which it takes nothing more if that was of the journal: whoever keeps the memory can do without.
func (m *Machine) Quiesce() (unwritten, err error) {
	unix.Sync()
	if err := m.Freeze(); err != nil {
		return nil, err
	}
	return m.writeOut(), nil
}

func (m *Machine) writeOut() error {
	if err := unix.Syncfs(int(m.disk.Fd())); err != nil {
		return fmt.Errorf("write out the disk: %w", err)
	}
	return nil
}
