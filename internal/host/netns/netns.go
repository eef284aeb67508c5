// Package netns makes the network namespaces in which machines run: a loopback, a tap device, and a filter that drops every packet.
//
// A namespace is bound at a name below /run/netns, so that it lives without a process and ip-netns shows it. Its invariant: the filter
// is there before the tap is up or anybody can have its descriptor. It has no addresses and no IPv6. What lets packets through (the
// gateway) replaces the filter's rules, not its order.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/thread"
	"github.com/space-platform/space/internal/instance"
)

// Tap is a device between the namespace and a VMM. It's persistent: it stays when nobody has its descriptor, so the filter on its
// ingress hook, which belongs to the device, can't go away under a machine. It ends with the namespace.
type Tap struct {
	Name  string // at most 15 bytes
	Owner int    // uid that may attach to it by name
}

// nameRE is what a namespace may be called; it becomes a file name.
var nameRE = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,127}$`)

// Path is where a namespace of that name is bound.
func Path(name string) string { return filepath.Join(instance.NetNSDir, name) }

// Create makes a namespace with a tap, closed to every packet. fs.ErrExist is wrapped if the name is taken. When it fails nothing is left.
func Create(name string, tap Tap) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := share(instance.NetNSDir); err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	f, err := os.OpenFile(Path(name), os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o444) // the mount point
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	f.Close()
	if err := thread.Run(func() error { return furnish(name, tap) }); err != nil {
		return errors.Join(fmt.Errorf("make network namespace %s: %w", name, err), Remove(name))
	}
	return nil
}

// furnish runs on a thread of its own.
func furnish(name string, tap Tap) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := disableIPv6(); err != nil {
		return err
	}
	if err := makeTap(tap); err != nil {
		return err
	}
	if err := applyFilter(tap.Name); err != nil {
		return err
	}
	if err := linksUp("lo", tap.Name); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", Path(name), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind it: %w", err)
	}
	return nil
}

// Remove unbinds a namespace's name; the kernel ends the namespace when its last process is gone. No such name is no error.
func Remove(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	for range maxBinds {
		err := unix.Unmount(Path(name), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // not a mount point any more
		}
		if err != nil {
			return fmt.Errorf("remove network namespace %s: %w", name, err)
		}
	}
	if err := os.Remove(Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}

// maxBinds bounds the mounts on one name: propagation may put a second one on the first.
const maxBinds = 8

// List returns the names that begin with a prefix, in order, bound or only left over.
func List(prefix string) ([]string, error) {
	entries, err := os.ReadDir(instance.NetNSDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && nameRE.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

// Exists tells whether a namespace is bound at the name.
func Exists(name string) bool {
	var s unix.Statfs_t
	return nameRE.MatchString(name) && unix.Statfs(Path(name), &s) == nil && s.Type == unix.NSFS_MAGIC
}

// Enter moves the calling thread into the namespace bound at a path. The thread must be one that ends afterwards.
func Enter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

func checkName(name string) error {
	if !nameRE.MatchString(name) {
		return fmt.Errorf("network namespace %q: a name is up to 128 of a-z, 0-9 and _.-", name)
	}
	return nil
}

// disableIPv6 keeps the kernel from giving the devices addresses of its own. Without IPv6 there's nothing to disable.
func disableIPv6() error {
	for _, which := range []string{"all", "default"} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("disable IPv6: %w", err)
		}
	}
	return nil
}
