package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk/btrfs"
	"github.com/space-platform/space/internal/host/netns"
)

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

func lookTun(context.Context, Options) verdict {
	return judgeDevice("/dev/net/tun", open("/dev/net/tun"), "tun", "a machine's network card has no other end")
}

func lookLoop(_ context.Context, o Options) verdict {
	if native, err := btrfs.Is(nearest(o.Instance.DataDir())); err == nil && native {
		return fine("not needed: the data directory is on btrfs")
	}
	return judgeDevice("/dev/loop-control", open("/dev/loop-control"), "loop", "the volume's image can't be mounted")
}

// open opens a device and closes it: it being there proves little.
func open(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func judgeDevice(path string, err error, module, meaning string) verdict {
	switch {
	case err == nil:
		return fine(path)
	case errors.Is(err, os.ErrPermission):
		return verdict{Fail, err.Error(), meaning, "sudo space doctor"}
	default:
		return verdict{Fail, err.Error(), meaning, "modprobe " + module}
	}
}

// lookNftables makes what every machine gets, a namespace with a tap and a filter, and removes it.
func lookNftables(_ context.Context, o Options) verdict {
	if os.Geteuid() != 0 {
		return judgeNftables(unix.EPERM)
	}
	name := fmt.Sprintf("%sdoctor-%d", o.Instance.Prefix(), os.Getpid())
	if err := netns.Create(name, netns.Tap{Name: "tap0"}); err != nil {
		return judgeNftables(err)
	}
	return judgeNftables(netns.Remove(name))
}

func judgeNftables(err error) verdict {
	const meaning = "no machine can be cut off from the network, so none is started"
	switch {
	case err == nil:
		return fine("a namespace with a tap and a filter could be made")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return verdict{Fail, err.Error(), meaning, "sudo space doctor"}
	case strings.Contains(err.Error(), "tap"):
		return verdict{Fail, err.Error(), meaning, "modprobe tun"}
	default:
		return verdict{Fail, err.Error(), meaning, "modprobe -a nf_tables nft_counter"}
	}
}

func lookBtrfs(context.Context, Options) verdict {
	b, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return verdict{state: Fail, detail: err.Error()}
	}
	return judgeBtrfs(find("mkfs.btrfs"), strings.Contains(string(b), "\tbtrfs\n"), moduleExists("btrfs"))
}

// moduleExists tells whether the kernel would load a module when it's asked for.
func moduleExists(name string) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	b, err := os.ReadFile("/lib/modules/" + unix.ByteSliceToString(u.Release[:]) + "/modules.dep")
	return err == nil && strings.Contains(string(b), "/"+name+".ko")
}

func judgeBtrfs(mkfs string, registered, loadable bool) verdict {
	const meaning = "the volume can't be made: copies of disks must cost nothing, and that's what btrfs does"
	switch {
	case !registered && !loadable:
		return verdict{Fail, "the kernel has no btrfs", meaning, upgradeKernel}
	case mkfs == "":
		return verdict{Fail, "mkfs.btrfs isn't installed", meaning, install("btrfs-progs")}
	case !registered:
		return verdict{Info, mkfs + "; the kernel's module isn't loaded yet", "mounting the volume loads it", "modprobe btrfs"}
	default:
		return fine(mkfs + ", and the kernel knows it")
	}
}
