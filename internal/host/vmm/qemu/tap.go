package qemu

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// openTap opens a tap device that exists in a network namespace. QEMU gets the descriptor, so its enclosure needs neither /dev/net/tun nor
// a right over the device.
//
// The calling thread changes its namespace; one that can't be brought back ends with its goroutine.
func openTap(netns, name string) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		f, err := openTapIn(netns, name)
		done <- result{f, err}
	}()
	r := <-done
	if r.err != nil {
		return nil, fmt.Errorf("open tap %s in %s: %w", name, netns, r.err)
	}
	return r.f, nil
}

func openTapIn(netns, name string) (*os.File, error) {
	ns, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter the namespace: %w", err)
	}
	if _, err := net.InterfaceByName(name); err != nil { // TUNSETIFF would make one
		return nil, err
	}
	return attach(name)
}

func attach(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "tap:"+name)
	req, err := unix.NewIfreq(name)
	if err != nil {
		f.Close()
		return nil, err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		f.Close()
		return nil, fmt.Errorf("attach: %w", err)
	}
	return f, nil
}
