package doctor

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/cgroup"
)

func lookRoot(context.Context, Options) verdict { return judgeRoot(os.Geteuid()) }

func judgeRoot(uid int) verdict {
	if uid != 0 {
		return verdict{Fail, fmt.Sprintf("uid %d", uid), "the platform makes namespaces, mounts and users, which only root may; without root most checks can't look either", "sudo space doctor"}
	}
	return fine("uid 0")
}

func lookKernel(context.Context, Options) verdict {
	return judgeKernel(release(), runtime.GOARCH)
}

// release is the kernel's; "" if it doesn't say.
func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// upgradeKernel installs Debian's newest.
const upgradeKernel = "apt-get install -y linux-image-amd64 && reboot"

// judgeKernel: 5.14 has everything that the platform can't do without (openat2, close_range with CLOEXEC, cgroup.kill); 6.5 tells the
// pidfd of a socket's peer.
func judgeKernel(release, arch string) verdict {
	if arch != "amd64" {
		return verdict{Fail, release + " on " + arch, "machines are made for x86-64 hosts only", ""}
	}
	major, minor, ok := parseRelease(release)
	switch {
	case !ok:
		return verdict{Warn, release, "the release can't be read, so it can't be said whether it's new enough: 5.14 is needed", "uname -r"}
	case before(major, minor, 5, 14):
		return verdict{Fail, release, "too old: 5.14 is needed, 6.1 recommended", upgradeKernel}
	case before(major, minor, 6, 5):
		return verdict{Info, release + "; peers of sockets are known by pid + start time + uid", "a kernel from 6.5 on would know them by pidfd, which can't be mistaken even for a moment", ""}
	default:
		return fine(release + "; peers of sockets are known by pidfd")
	}
}

func before(major, minor, wantMajor, wantMinor int) bool {
	return major < wantMajor || major == wantMajor && minor < wantMinor
}

// parseRelease reads the first two numbers of a release like 6.1.0-18-amd64.
func parseRelease(s string) (major, minor int, ok bool) {
	parts := strings.SplitN(s, ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, 0, false
	}
	end := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(parts[1])
	}
	minor, err = strconv.Atoi(parts[1][:end])
	return major, minor, err == nil
}

func lookCgroups(context.Context, Options) verdict {
	h, err := cgroup.Detect()
	return judgeCgroups(h.Version(), err)
}

func judgeCgroups(version int, err error) verdict {
	if err != nil {
		return verdict{Fail, err.Error(), "machines can't be limited in memory, CPU and processes", "mount -t cgroup2 none /sys/fs/cgroup"}
	}
	if version == 1 {
		return verdict{Info, "version 1, with memory, cpu, cpuacct, pids, freezer", "all limits work; version 2 starts machines a little faster", ""}
	}
	return fine("version 2, with memory, cpu, pids")
}
