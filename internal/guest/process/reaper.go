package process

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper is the only one in this program that waits for child processes: those that it started, whose end it tells, and the orphans that
// the kernel hands to this process. Nothing else here may use os/exec.
type Reaper struct {
	started chan struct{} // there may be children again
	forks   chan func()   // to be called on the thread that lives as long as the program

	mu       sync.Mutex // held over fork and registration, so that no child's end comes before its entry, and over signals
	children map[int]*Child
}

// NewReaper returns a reaper; Run must be called for it to work.
func NewReaper() *Reaper {
	return &Reaper{started: make(chan struct{}, 1), forks: make(chan func()), children: map[int]*Child{}}
}

// Adopt makes this process the parent of its descendants' orphans, as the first process of a machine is anyway.
func (r *Reaper) Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the reaper of orphans: %w", err)
	}
	return nil
}

// Child is a program that a reaper has started.
type Child struct {
	PID   int                       // and the number of its process group, if it leads one
	Ended <-chan syscall.WaitStatus // has its status when it has ended, once

	reaper *Reaper
	ended  chan syscall.WaitStatus
	sweep  bool // kill what is left of its group when it has ended
}

// Start starts a program. Errors are the system's, unwrapped.
func (r *Reaper) Start(path string, argv []string, attr *syscall.ProcAttr) (c *Child, err error) {
	if attr.Sys.Pdeathsig == 0 {
		return r.start(path, argv, attr)
	}
	done := make(chan struct{}) // "parent" is a thread to the kernel, and others than this one come and go
	r.forks <- func() {
		defer close(done)
		c, err = r.start(path, argv, attr)
	}
	<-done
	return c, err
}

func (r *Reaper) start(path string, argv []string, attr *syscall.ProcAttr) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	c := &Child{PID: pid, Ended: ended, reaper: r, ended: ended}
	r.children[pid] = c
	select {
	case r.started <- struct{}{}:
	default:
	}
	return c, nil
}

// Signal sends a signal to the process group that the child leads. After its end nothing happens: the number may be another's then.
func (c *Child) Signal(sig syscall.Signal) {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	if c.reaper.children[c.PID] == c {
		syscall.Kill(-c.PID, sig)
	}
}

// Sweep kills what is left of the child's process group when the child has ended.
func (c *Child) Sweep() {
	c.reaper.mu.Lock()
	defer c.reaper.mu.Unlock()
	c.sweep = true
}

// Run reaps for as long as the process lives.
func (r *Reaper) Run() {
	go r.fork()
	runtime.LockOSThread() // it blocks in the kernel most of the time
	for {
		pid, err := nextDead()
		switch err {
		case nil:
			r.reap(pid)
		case unix.ECHILD:
			<-r.started
		case unix.EINTR:
		default:
			panic(fmt.Sprintf("wait for any child: %v", err)) // only a wrong call can do that
		}
	}
}

// fork starts the programs that are to die with this one.
func (r *Reaper) fork() {
	runtime.LockOSThread()
	for fork := range r.forks {
		fork()
	}
}

// nextDead waits for a child that has ended and leaves it a zombie.
func nextDead() (int, error) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return 0, err
	}
	return siginfoPID(&info), nil
}

// reap takes a zombie's status and tells whoever started it. It may be gone: a fork whose exec failed is waited for by the fork. As long as the
// zombie is there, nobody else has its number.
func (r *Reaper) reap(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.children[pid]
	if c != nil && c.sweep {
		syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if err != nil || got != pid || c == nil {
		return
	}
	delete(r.children, pid)
	c.ended <- status
}
