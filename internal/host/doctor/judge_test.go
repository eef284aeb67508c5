package doctor

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/kernel"
	"github.com/space-platform/space/internal/host/meminfo"
)

// row is one machine that nobody needs to have.
type row struct {
	name  string
	got   verdict
	state State
	says  string // part of what is said
	fix   string // part of the command
}

var rows = []row{
	{"root", judgeRoot(0), OK, "uid 0", ""},
	{"no root", judgeRoot(1000), Fail, "uid 1000", "sudo space doctor"},

	{"Debian 12's kernel", judgeKernel("6.1.0-18-amd64", "amd64"), Info, "pid + start time + uid", ""},
	{"a new kernel", judgeKernel("6.12.3", "amd64"), OK, "known by pidfd", ""},
	{"exactly 6.5", judgeKernel("6.5", "amd64"), OK, "known by pidfd", ""},
	{"exactly 5.14", judgeKernel("5.14.0", "amd64"), Info, "5.14", ""},
	{"an old kernel", judgeKernel("5.10.0-28-amd64", "amd64"), Fail, "too old", "linux-image-amd64"},
	{"a kernel without numbers", judgeKernel("next", "amd64"), Warn, "can't be read", "uname"},
	{"another processor", judgeKernel("6.12.3", "arm64"), Fail, "x86-64", ""},

	{"cgroup v1", judgeCgroups(1, nil), Info, "version 1", ""},
	{"cgroup v2", judgeCgroups(2, nil), OK, "version 2", ""},
	{"no cgroups", judgeCgroups(0, errors.New("no controller pids")), Fail, "pids", "mount -t cgroup2"},

	{"tun", judgeDevice("/dev/net/tun", nil, "tun", "m"), OK, "/dev/net/tun", ""},
	{"no tun", judgeDevice("/dev/net/tun", unix.ENOENT, "tun", "m"), Fail, "no such file", "modprobe tun"},
	{"tun not allowed", judgeDevice("/dev/net/tun", os.ErrPermission, "tun", "m"), Fail, "permission", "sudo"},

	{"nftables", judgeNftables(nil), OK, "could be made", ""},
	{"nftables not allowed", judgeNftables(unix.EPERM), Fail, "not permitted", "sudo"},
	{"no nftables", judgeNftables(fmt.Errorf("load the packet filter: %w", unix.EOPNOTSUPP)), Fail, "packet filter", "nf_tables"},
	{"no tap", judgeNftables(fmt.Errorf("make tap tap0: %w", unix.ENODEV)), Fail, "tap0", "modprobe tun"},

	{"btrfs", judgeBtrfs("/usr/sbin/mkfs.btrfs", true, false), OK, "mkfs.btrfs", ""},
	{"btrfs as a module", judgeBtrfs("/usr/sbin/mkfs.btrfs", false, true), Info, "isn't loaded", "modprobe btrfs"},
	{"no mkfs", judgeBtrfs("", true, true), Fail, "isn't installed", "btrfs-progs"},
	{"no btrfs in the kernel", judgeBtrfs("/usr/sbin/mkfs.btrfs", false, false), Fail, "no btrfs", "linux-image"},

	{"no QEMU", judgeQEMU("", fmt.Errorf("ask: %w", os.ErrNotExist)), Fail, "isn't installed", "qemu-system-x86"},
	{"a broken QEMU", judgeQEMU("", errors.New("exit status 127")), Fail, "127", "--reinstall"},
	{"QEMU 7.2", judgeQEMU("7.2.22 (Debian)", nil), Info, "of its own", ""},
	{"QEMU 8.2", judgeQEMU("8.2.0", nil), OK, "8.2.0", ""},
	{"QEMU 10", judgeQEMU("10.0.2", nil), OK, "10.0.2", ""},
	{"QEMU 5", judgeQEMU("5.2.0", nil), Fail, "too old", "apt-get"},
	{"QEMU without a number", judgeQEMU("git", nil), Warn, "git", "--version"},

	{"PostgreSQL", judgePostgres([]string{"/usr/lib/postgresql/13/bin/postgres", "/usr/lib/postgresql/16/bin/postgres"}), OK, "version 16", ""},
	{"no PostgreSQL", judgePostgres(nil), Fail, "no server", "postgresql"},
	{"old PostgreSQL", judgePostgres([]string{"/usr/lib/postgresql/13/bin/postgres"}), Fail, "too old", "postgresql"},

	{"build tools", judgeTemplateTools(nil), OK, "mmdebstrap", ""},
	{"no build tools", judgeTemplateTools(map[string]bool{"mmdebstrap": true, "e2fsprogs": true}), Fail, "e2fsprogs, mmdebstrap", "e2fsprogs mmdebstrap"},

	{"KVM", judgeKVM(kvmFacts{device: true}), OK, "boots with KVM", ""},
	{"KVM forced", judgeKVM(kvmFacts{device: true, forced: "kvm"}), OK, "boots with KVM", ""},
	{"no KVM", judgeKVM(kvmFacts{broken: "x"}), Warn, "no boundary between tenants", "modprobe kvm"},
	{"KVM that doesn't work", judgeKVM(kvmFacts{device: true, broken: "too slow"}), Warn, "is there and doesn't work: too slow; TCG is used", "dmesg"},
	{"KVM forced that doesn't work", judgeKVM(kvmFacts{device: true, broken: "too slow", forced: "kvm"}), Fail, "no machine will start", "dmesg"},
	{"KVM forced without one", judgeKVM(kvmFacts{broken: "x", forced: "kvm"}), Fail, "there is no /dev/kvm", "modprobe kvm"},
	{"TCG forced", judgeKVM(kvmFacts{device: true, forced: "tcg", config: "/c.toml"}), Warn, "no boundary", "sed -i /^acceleration/d /c.toml"},

	{"tuned kernels", judgeGuestKernel(guestKernelFacts{Present: kernel.Present{Tuned: true, Version: "6.1.9-1"}}, nil), OK, "tuned 6.1.9-1", ""},
	{"no tuned kernels", judgeGuestKernel(guestKernelFacts{Present: kernel.Present{Version: "6.1.9-1"}}, nil), Info, "Debian's for cloud guests, 6.1.9-1", ""},
	{"no kernel yet", judgeGuestKernel(guestKernelFacts{}, nil), Info, "first 'space up' fetches", ""},
	{"Debian's kernel forced", judgeGuestKernel(guestKernelFacts{forced: kernel.Cloud, config: "/c.toml"}, nil), Info, "configuration chooses", "sed -i /^kernel/d /c.toml"},
	{"tuned kernels forced without any", judgeGuestKernel(guestKernelFacts{forced: kernel.Tuned, config: "/c.toml"}, errors.New("none was built")), Fail, "none was built", "sed -i /^kernel/d /c.toml"},
	{"an unknown kernel forced", judgeGuestKernel(guestKernelFacts{forced: "mine", config: "/c.toml"}, nil), Fail, "mine", "sed -i /^kernel/d /c.toml"},

	{"room", judgeDisk(diskFacts{path: "/d", free: 20 * gib, planned: 12 * gib}), OK, "20.0 GiB free", ""},
	{"exactly enough room", judgeDisk(diskFacts{free: 14 * gib, planned: 12 * gib}), OK, "14.0", ""},
	{"no room", judgeDisk(diskFacts{free: 14*gib - 1, planned: 12 * gib}), Fail, "volume_gib", "apt-get clean"},
	{"a volume, and room", judgeDisk(diskFacts{free: 2 * gib, planned: 12 * gib, image: 12 * gib}), OK, "2.0 GiB", ""},
	{"a volume, and no room", judgeDisk(diskFacts{free: gib / 2, planned: 12 * gib, image: 12 * gib}), Warn, "no room", "apt-get clean"},

	{"a volume", judgeVolume(usage(6, 12, 12), "/i"), OK, "6.0 GiB of 12.0", ""},
	{"a full volume", judgeVolume(usage(1, 12, 12), "/i"), Warn, "from 95 %", "space snapshot ls"},
	{"a volume that is full to 95 %", judgeVolume(usage(1, 20, 20), "/i"), Fail, "what runs, deletes and suspends go on", "space snapshot ls"},
	{"a volume with holes", judgeVolume(usage(6, 12, 10), "/i"), Warn, "holes", "fallocate -l 12884901888 /i"},
	{"a volume with holes that can't be filled", judgeVolume(disk.Usage{Bytes: 12 * gib, FreeBytes: 6 * gib, ImageBytes: 12 * gib, AllocatedBytes: 6 * gib, BelowFreeBytes: gib}, "/i"), Fail, "write errors", "apt-get clean"},
	{"a volume above a full disk", judgeVolume(disk.Usage{Bytes: 12 * gib, FreeBytes: 6 * gib, ImageBytes: 12 * gib, AllocatedBytes: 12 * gib}, "/i"), Warn, "the volume is safe", "apt-get clean"},
	{"a subvolume", judgeVolume(disk.Usage{Bytes: 12 * gib, FreeBytes: 6 * gib}, "/i"), OK, "6.0 GiB", ""},

	{"memory", judgeMemory(meminfo.Facts{Total: 32 * gib, Available: 16 * gib}), OK, "16.0 GiB of 32.0", ""},
	{"little memory", judgeMemory(meminfo.Facts{Total: 4 * gib, Available: 2 * gib}), Warn, "very few", "ps"},
	{"no memory", judgeMemory(meminfo.Facts{Total: gib, Available: gib / 2}), Fail, "needed", "ps"},
	{"swap", judgeMemory(meminfo.Facts{Total: 32 * gib, Available: 16 * gib, Swap: gib}), Warn, "swap", "swapoff"},

	{"clock", judgeClock(clockFacts{now: day, newest: day.Add(-time.Hour), synced: true, running: true}), OK, "synchronised", ""},
	{"a clock of its own", judgeClock(clockFacts{now: day, running: true}), Warn, "not synchronised", "timesyncd"},
	{"a clock that is behind", judgeClock(clockFacts{now: day, newest: day.Add(time.Hour), synced: true, running: true}), Warn, "behind", "timesyncd"},
	{"a clock that stands", judgeClock(clockFacts{now: day, synced: true}), Fail, "stands still", "dmesg"},
}

var day = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)

// usage is a volume in an image, in gibibytes, with plenty of room below.
func usage(free, size, allocated int64) disk.Usage {
	return disk.Usage{Bytes: size * gib, FreeBytes: free * gib, ImageBytes: size * gib, AllocatedBytes: allocated * gib, BelowBytes: 99 * gib, BelowFreeBytes: 50 * gib}
}

func TestVerdicts(t *testing.T) {
	for _, r := range rows {
		said := r.got.detail + " " + r.got.meaning
		if r.got.state != r.state || !strings.Contains(said, r.says) || !strings.Contains(r.got.fix, r.fix) || (r.fix == "") != (r.got.fix == "") {
			t.Errorf("%s: got %+v, want state %s, something about %q, fix %q", r.name, r.got, r.state, r.says, r.fix)
		}
		if r.got.state != OK && r.got.meaning == "" {
			t.Errorf("%s: %s says not what it means", r.name, r.got.state)
		}
	}
}

// TestFixesAreCommandsOfDebian keeps sentences out of where people copy commands from.
func TestFixesAreCommandsOfDebian(t *testing.T) {
	command := regexp.MustCompile(`^(apt-get|modprobe|mount|sudo|sed|fallocate|dmesg|swapoff|ps|uname|space|/usr/bin/qemu-system-x86_64) `)
	for _, r := range rows {
		if r.got.fix != "" && !command.MatchString(r.got.fix) {
			t.Errorf("%s: fix %q isn't a command", r.name, r.got.fix)
		}
	}
}
