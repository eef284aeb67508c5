package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// Program is what a role is started from.
type Program struct {
	Name   string   // names the pid file and the log
	Path   string   // of the executable
	Args   []string // without the program's name
	Env    []string // the whole environment
	UID    int
	GID    int
	Groups []int // supplementary groups

	// Stop asks it to end; it has Grace to do so before it's killed.
	Stop  unix.Signal
	Grace time.Duration

	// Socket, if set, is a unix socket that must accept connections before the programs after this one are started for the first
	// time. When it doesn't within socketWait they are started all the same: each must be able to wait for its peers anyway.
	Socket string
}

// Dirs is where the supervisor keeps what it writes. Both exist.
type Dirs struct {
	Run string // pid files and the lock; gone after a reboot
	Log string // NAME.log, and NAME.log.1 after a rotation
}
