package process

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/space-platform/space/internal/guest/account"
)

// Limits of a table.
const (
	MaxSessions  = 160 // kept at one time, more than the node starts; beyond it the oldest that are over and acknowledged are forgotten
	maxLingering = 64  // pipes that are held open by children of commands that have ended
)

// ErrTooMany is returned by Open when MaxSessions are running or not acknowledged.
var ErrTooMany = fmt.Errorf("a guest keeps at most %d sessions", MaxSessions)

// ErrRunning is returned by Forget for a session that isn't over.
var ErrRunning = errors.New("the session is not over")

// errStopping is why nothing starts after Terminate.
var errStopping = errors.New("the sandbox is being stopped")

// Table is all sessions of a machine.
type Table struct {
	reaper    *Reaper
	accounts  account.Files
	attr      Attributes
	lingering chan struct{}
	stopping  atomic.Bool // what ends from now on was ended by Terminate

	mu       sync.Mutex
	sessions map[string]*Session
	order    []string // ids, oldest first
}

// Attributes are what every session's command gets.
type Attributes struct {
	// Cgroup is the open directory of a version 2 cgroup to start commands in; nil: this program's own.
	Cgroup *os.File
	// DieWithParent kills a command when this program dies, however it does: for programs that aren't a machine's first process.
	DieWithParent bool
	// First says that this program is a machine's first process: all others are its descendants.
	First bool
	// Prepare runs before each start, for tests; nil: nothing does.
	Prepare func()
}

// NewTable returns an empty table whose commands r starts and reaps.
func NewTable(r *Reaper, a Attributes) *Table {
	return &Table{
		reaper: r, accounts: account.System, attr: a,
		lingering: make(chan struct{}, maxLingering), sessions: map[string]*Session{},
	}
}

// Open returns the session of that id and starts it if it's new. A command that can't be started is a session too: one that has ended
// with the reason. The only error is ErrTooMany.
func (t *Table) Open(id string, spec Spec) (*Session, error) {
	s, fresh, err := t.find(id, spec)
	if err != nil || !fresh {
		return s, err
	}
	if err := t.start(s, spec); err != nil {
		s.fail(err)
	}
	return s, nil
}

// find returns the session of that id; a fresh one must be started by the caller, outside the lock: a path that it looks at may hang.
func (t *Table) find(id string, spec Spec) (s *Session, fresh bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sessions[id]; s != nil {
		return s, false, nil
	}
	if len(t.sessions) >= MaxSessions && !t.evict() {
		return nil, false, ErrTooMany
	}
	s = newSession(spec)
	t.sessions[id] = s
	t.order = append(t.order, id)
	return s, true, nil
}

// start starts a session's command.
func (t *Table) start(s *Session, spec Spec) error {
	if err := spec.check(); err != nil {
		return err
	}
	if t.stopping.Load() {
		return errStopping
	}
	if t.attr.Prepare != nil {
		t.attr.Prepare()
	}
	c, err := spec.resolve(t.accounts)
	if err != nil {
		return err
	}
	p, err := openStreams(spec, c.user)
	if err != nil {
		return err
	}
	child, err := t.reaper.Start(c.path, c.argv, t.procAttr(c, p))
	if err != nil {
		p.close()
		return c.failure(err)
	}
	if !p.tty {
		p.closeChild()
	}
	s.child = child
	if p.tty {
		s.tty = p.stdin
	}
	close(s.ready)
	if t.stopping.Load() { // since it was looked at: Terminate's signals may have come too early for this one
		s.Signal(syscall.SIGKILL)
	}
	go s.follow(p, child, spec.Timeout, t)
	return nil
}

// procAttr is how a command is forked: in a session and process group of its own, as its user.
func (t *Table) procAttr(c command, p streams) *syscall.ProcAttr {
	var death syscall.Signal
	if t.attr.DieWithParent {
		death = syscall.SIGKILL
	}
	group := -1
	if t.attr.Cgroup != nil {
		group = int(t.attr.Cgroup.Fd())
	}
	return &syscall.ProcAttr{
		Dir:   c.dir,
		Env:   c.env,
		Files: []uintptr{p.child[0].Fd(), p.child[1].Fd(), p.child[2].Fd()},
		Sys: &syscall.SysProcAttr{
			Setsid:      true,
			Setctty:     p.tty, // descriptor 0
			Pdeathsig:   death,
			Credential:  &syscall.Credential{Uid: c.user.UID, Gid: c.user.GID, Groups: c.user.Groups},
			UseCgroupFD: t.attr.Cgroup != nil,
			CgroupFD:    group,
		},
	}
}

// evict forgets the oldest session that loses nothing by it; mu is held.
func (t *Table) evict() bool {
	for _, id := range t.order {
		if t.sessions[id].over() {
			t.drop(id)
			return true
		}
	}
	return false
}

// Forget drops a session that has ended, with what it kept. An unknown one is forgotten already. The only error is ErrRunning.
func (t *Table) Forget(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[id]
	if s == nil {
		return nil
	}
	select {
	case <-s.ended:
		t.drop(id)
		return nil
	default:
		return ErrRunning
	}
}

// drop removes a session; mu is held.
func (t *Table) drop(id string) {
	close(t.sessions[id].dropped)
	delete(t.sessions, id)
	for i, o := range t.order {
		if o == id {
			t.order = append(t.order[:i], t.order[i+1:]...)
			return
		}
	}
}

// KillAll kills the process groups of all commands that run. It doesn't wait.
func (t *Table) KillAll() { t.signal(syscall.SIGKILL, func(*Session) bool { return true }) }

// signal sends a signal to the process groups of those commands that run.
func (t *Table) signal(sig syscall.Signal, to func(*Session) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions {
		select {
		case <-s.ready:
			if to(s) {
				s.Signal(sig)
			}
		default: // its start hasn't returned
		}
	}
}
