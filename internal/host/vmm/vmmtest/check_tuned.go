package vmmtest

import "testing"

// checkTuned has the guest use what deploy/kernel promises and Debian's kernel for cloud guests hasn't without modules.
func checkTuned(t *testing.T, s *suite) {
	g := s.load(t, s.base)
	for what, command := range map[string]string{
		"overlay":        `mkdir -p /run/o/l /run/o/u /run/o/w /run/o/m && echo low > /run/o/l/f && mount -t overlay -o lowerdir=/run/o/l,upperdir=/run/o/u,workdir=/run/o/w o /run/o/m && echo up > /run/o/m/f && test "$(cat /run/o/l/f /run/o/u/f | tr -d '\n')" = lowup`,
		"loop device":    `dd if=/dev/zero of=/run/image bs=1M count=4 2>/dev/null && mke2fs -q -F /run/image && mkdir -p /run/loop && mount -o loop /run/image /run/loop && echo x > /run/loop/f && umount /run/loop`,
		"file systems":   `for f in ext4 overlay fuse squashfs tmpfs cgroup2 hugetlbfs; do grep -qw $f /proc/filesystems || { echo no $f; exit 1; }; done`,
		"devices":        `for d in fuse net/tun loop-control random hwrng ptmx vsock; do test -c /dev/$d || { echo no /dev/$d; exit 1; }; done`,
		"namespaces":     `test "$(unshare --user --map-root-user --mount --uts --ipc --net --pid --fork sh -c 'id -u; echo $$' | tr '\n' ' ')" = '0 1 '`,
		"network":        `for k in dummy bridge; do ip link add t-$k type $k && ip link set t-$k up && ip link del t-$k || { echo no $k; exit 1; }; done; test -d /proc/sys/net/ipv6`,
		"packet filter":  `test -e /proc/sys/net/netfilter/nf_conntrack_max && test -e /proc/net/ip_tables_names && test -e /proc/net/ip6_tables_names && grep -q '^CONFIG_NF_TABLES=y' /run/config`,
		"control groups": `for c in cpu memory pids io; do grep -qw $c /sys/fs/cgroup/cgroup.controllers || { echo no $c; exit 1; }; done`,
		"calls":          `for c in IO_URING USERFAULTFD FANOTIFY BPF_SYSCALL SECCOMP_FILTER SECURITY_LANDLOCK MEMFD_CREATE CHECKPOINT_RESTORE VMGENID KVM_GUEST; do grep -q "^CONFIG_$c=y" /run/config || { echo no $c; exit 1; }; done`,
		"no modules":     `test ! -e /proc/modules`,
	} {
		out, exit, err := g.session(s.within(t), "sh", "-c", "zcat /proc/config.gz > /run/config && "+command+" 2>&1")
		if err != nil || exit.GetCode() != 0 {
			t.Errorf("%s: %q, %v, %v", what, out, exit, err)
		}
	}
}
