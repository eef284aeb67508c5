package netns

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
)

// tapFlags are the same at every opening. IFF_VNET_HDR decides which offloads a guest is offered, so it's part of what a snapshot
// fixes; both QEMU and Firecracker use it.
const tapFlags = unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR

const tunDevice = "/dev/net/tun"

// OpenTap attaches to the tap of a namespace, for a VMM that takes a descriptor. Only one descriptor can be attached at a time. Each
// frame is preceded by a virtio-net header of 10 bytes unless its user changes that.
func OpenTap(path, name string) (*os.File, error) {
	var f *os.File
	err := thread.Run(func() error {
		if err := Enter(path); err != nil {
			return err
		}
		if _, err := net.InterfaceByName(name); err != nil { // to attach would make one, without a filter
			return err
		}
		fd, err := attach(name)
		if err == nil {
			f = os.NewFile(uintptr(fd), tunDevice)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open tap %s of %s: %w", name, path, err)
	}
	return f, nil
}

// makeTap makes the device in the calling thread's namespace and lets go of it. A process that is being started has copies of all descriptors until it
// executes its program, and a device takes one descriptor at a time: a copy of this one would keep the VMM out. So none is started meanwhile.
func makeTap(tap Tap) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := attach(tap.Name)
	if err != nil {
		return fmt.Errorf("make tap %s: %w", tap.Name, err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.TUNSETOWNER, tap.Owner); err != nil {
		return fmt.Errorf("make tap %s: set its owner: %w", tap.Name, err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("make tap %s: make it persistent: %w", tap.Name, err)
	}
	return nil
}

// attach opens the device of that name in the calling thread's namespace; it's made if there is none.
func attach(name string) (int, error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("name %q: %w", name, err)
	}
	req.SetUint16(tapFlags)
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", tunDevice, err)
	}
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("attach: %w", err)
	}
	return fd, nil
}

// linksUp brings devices up in the calling thread's namespace.
func linksUp(names ...string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring links up: %w", err)
	}
	defer unix.Close(s)
	for _, name := range names {
		req, err := unix.NewIfreq(name)
		if err != nil {
			return fmt.Errorf("bring link %q up: %w", name, err)
		}
		if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, req); err != nil {
			return fmt.Errorf("bring link %s up: %w", name, err)
		}
		req.SetUint16(req.Uint16() | unix.IFF_UP)
		if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
			return fmt.Errorf("bring link %s up: %w", name, err)
		}
	}
	return nil
}
