package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// openTap opens a tap device inside a network namespace.
func openTap(namespace string) (*os.File, error) {
	type result struct {
		tap *os.File
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		tap, err := tapIn(namespace)
		done <- result{tap, err}
	}()
	r := <-done
	return r.tap, r.err
}

func tapIn(namespace string) (*os.File, error) {
	ns, err := os.Open(filepath.Join("/run/netns", namespace))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter namespace %s: %w", namespace, err)
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq("tap0")
	if err != nil {
		return nil, err
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return nil, fmt.Errorf("make a tap: %w", err)
	}
	return os.NewFile(uintptr(fd), "tap0"), nil
}
