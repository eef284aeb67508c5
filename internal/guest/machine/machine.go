// Package machine changes what a handshake changes in a guest: clock, random generator and name, and lets user processes run again.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/api/link"
)

// Machine is this machine.
type Machine struct {
	Freezer *Freezer // of the sessions' processes; nil: none
	Hosts   *os.File // is mounted over /etc/hosts; nil: nothing is

	random *os.File // the kernel's generator, open from the start: nothing in the machine can put another file there

	mu       sync.Mutex // held while Hosts is written
	hostname string     // taken, not yet written to Hosts; "": nothing to write
}

// New returns this machine, with no cgroup to freeze and no file to write.
func New() (*Machine, error) {
	f, err := os.OpenFile(random, os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the random generator: %w", err)
	}
	return &Machine{random: f}, nil
}

// Hooks are what a link does to the machine.
func (m *Machine) Hooks() link.Hooks { return link.Hooks{Sync: m.sync, Clock: SetClock} }

// sync does all that must be done before the host gets its answer, in the order in which it matters, and no more: this code
// runs cold after a restore.
func (m *Machine) sync(s link.Sync) error {
	if err := SetClock(s.Time); err != nil {
		return err
	}
	if err := reseed(m.random, &s.Seed); err != nil {
		return err
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("set the host name: %w", err)
		}
		m.rename(s.Hostname)
	}
	if m.Freezer != nil {
		return m.Freezer.Thaw()
	}
	return nil
}

// SetClock sets the wall clock.
func SetClock(t time.Time) error {
	spec := unix.NsecToTimespec(t.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &spec); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// random is the kernel's generator.
const random = "/dev/urandom"

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

// rename has the hosts file written soon, but not before the host has its answer.
func (m *Machine) rename(name string) {
	m.mu.Lock()
	m.hostname = name
	m.mu.Unlock()
	go m.Prepare()
}

// Prepare makes sure that the hosts file has the machine's name, before a program starts that looks it up. A name that can't be
// resolved is an annoyance, not a reason not to run.
func (m *Machine) Prepare() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hostname != "" && m.Hosts != nil {
		m.Hosts.Truncate(0)
		m.Hosts.WriteAt(hosts(m.hostname), 0)
	}
	m.hostname = ""
}

// hosts is the content of /etc/hosts.
func hosts(name string) []byte {
	return []byte(strings.Join([]string{
		"127.0.0.1\tlocalhost",
		"::1\tlocalhost ip6-localhost ip6-loopback",
		"127.0.1.1\t" + name,
		"",
	}, "\n"))
}

// Quiesce stops the sessions' processes until the next handshake and writes all dirty data to the disk: what follows is a snapshot.
func (m *Machine) Quiesce() error {
	if m.Freezer != nil {
		if err := m.Freezer.Freeze(); err != nil {
			return err
		}
	}
	unix.Sync()
	runtime.GC()
	return nil
}
