// Package rights does things with the rights of a user of the guest.
//
// The agent is root, and never decides itself whether a user may do something: it lends a thread the user's identity for files and lets the
// kernel decide. Only what concerns files is lent. The thread stays root's otherwise, so that the user's processes can't touch it, but it has no
// capability in effect, with which root could read what belongs to others.
package rights

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/guest/account"
)

// As calls do on a thread of its own that touches files as the user, and returns what it returns. New files belong to the user. The thread
// ends with the call: its identity never comes back to the rest of the program. A panic is an error of code internal: one call must not end the machine.
func As(u account.Account, do func() error) (err error) {
	onOwnThread(func() { err = guarded(u, do) })
	return err
}

// onOwnThread calls do on a thread that ends with it. The program's first thread can't end, so it's held back if it's the one that came.
func onOwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onOwnThread(do)
			runtime.UnlockOSThread()
			return
		}
		do() // and the thread is never unlocked
	}()
	<-done
}

func guarded(u account.Account, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "a call ended with a panic: %v\n%s", p, debug.Stack())
			err = space.Errorf(space.CodeInternal, "the guest's agent has a bug")
		}
	}()
	if err := become(u); err != nil {
		return err
	}
	return do()
}

// become changes this thread. An agent that isn't root is one user and can't be another.
func become(u account.Account) error {
	if own := os.Geteuid(); own != 0 {
		if uint32(own) != u.UID {
			return space.Errorf(space.CodeForbidden, "the guest's agent runs as user %d and can't be %s", own, u.Name)
		}
		return nil
	}
	if err := setGroups(u.Groups); err != nil {
		return fmt.Errorf("take the groups of %s: %w", u.Name, err)
	}
	if err := setID(unix.SYS_SETFSGID, u.GID); err != nil {
		return fmt.Errorf("take the group of %s: %w", u.Name, err)
	}
	if err := setID(unix.SYS_SETFSUID, u.UID); err != nil {
		return fmt.Errorf("take the identity of %s: %w", u.Name, err)
	}
	if u.UID == 0 {
		return nil
	}
	if err := dropEffective(); err != nil {
		return fmt.Errorf("drop the rights of root: %w", err)
	}
	return nil
}

// setGroups sets this thread's groups; the standard library's function sets all threads'.
func setGroups(groups []uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// setID sets this thread's identity for files. The call tells only which it was before, so it's asked for a second time, with a number that is none.
func setID(call uintptr, id uint32) error {
	unix.RawSyscall(call, uintptr(id), 0, 0)
	is, _, _ := unix.RawSyscall(call, uintptr(^uint32(0)), 0, 0)
	if uint32(is) != id {
		return unix.EPERM
	}
	return nil
}

// dropEffective puts no capability of this thread into effect.
func dropEffective() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // the version has two words
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective, data[1].Effective = 0, 0
	return unix.Capset(&header, &data[0])
}
