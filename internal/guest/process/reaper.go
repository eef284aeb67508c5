package process

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper is the only one in this program that waits for child processes: those that it started, whose end it tells, and the orphans that
// the kernel hands to this process. Nothing else here may use os/exec.
type Reaper struct {
	forks chan func() // to be called on the thread that lives as long as the program

	mu       sync.Mutex // held over fork and registration, so that no child's end comes before its entry, and over signals
	children map[int]*Child
}

// NewReaper returns a reaper; Run must be called for it to work.
func NewReaper() *Reaper {
	return &Reaper{forks: make(chan func()), children: map[int]*Child{}}
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

// Run reaps for as long as the process lives. It waits for the kernel's signal and not for a child: a system call that blocks would hold the
// scheduler's only P until that is taken away after 10 to 20 ms, and with it whatever else a child's start or end has to be followed by.
func (r *Reaper) Run() {
	go r.fork()
	died := make(chan os.Signal, 1) // one that is pending is enough: all who have died are reaped
	signal.Notify(died, unix.SIGCHLD)
	for {
		for pid := nextDead(); pid != 0; pid = nextDead() {
			r.reap(pid)
		}
		<-died
	}
}

// fork starts the programs that are to die with this one.
func (r *Reaper) fork() {
	runtime.LockOSThread()
	for fork := range r.forks {
		fork()
	}
}

// nextDead returns a child that has ended, and leaves it a zombie; 0 if there is none.
func nextDead() int {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err {
		case nil:
			return siginfoPID(&info)
		case unix.ECHILD:
			return 0
		case unix.EINTR:
		default:
			panic(fmt.Sprintf("look for a child that has ended: %v", err)) // only a wrong call can do that
		}
	}
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
