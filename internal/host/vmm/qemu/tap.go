package qemu

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

// tapFlags decide which offloads a guest is offered, so they are part of what a snapshot fixes.
const tapFlags = unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR

// openTap opens a tap device that exists in a network namespace. QEMU gets the descriptor, so it needs neither /dev/net/tun nor a right
// over the device.
func openTap(netns, name string) (*os.File, error) {
	var f *os.File
	err := thread.Run(func() error {
		if err := enter(netns); err != nil {
			return err
		}
		if _, err := net.InterfaceByName(name); err != nil { // attaching would make one
			return err
		}
		var err error
		f, err = attach(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open tap %s in %s: %w", name, netns, err)
	}
	return f, nil
}

// enter moves the calling thread into a network namespace.
func enter(netns string) error {
	ns, err := unix.Open(netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	return unix.Setns(ns, unix.CLONE_NEWNET)
}

func attach(name string) (*os.File, error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	req.SetUint16(tapFlags)
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tap:"+name), nil
}
