// Package thread runs a function on an OS thread that ends with it, for work that changes the thread itself: namespaces, root directory,
// cgroup, capabilities. Nothing of that can leak into the rest of the program, because no other goroutine ever runs on the thread.
//
// The process's first thread is never used. It can't end, and it's the one that /proc/PID shows: its root and namespaces must stay the
// program's own.
package thread

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// Run calls f on a thread of its own and returns what f returned. When it returns, the thread has ended or is about to.
func Run(f func() error) error {
	done := make(chan error, 1)
	go onAnother(f, done)
	return <-done
}

func onAnother(f func() error, done chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if unix.Gettid() != unix.Getpid() {
		done <- f()
		return
	}
	defer runtime.UnlockOSThread()
	done <- Run(f) // while this goroutine holds the first thread, the other one can't get it
}
