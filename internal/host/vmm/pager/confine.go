package pager

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// calls are what a pager may ask of the kernel once it serves: what its descriptors take, and what the Go runtime needs for memory, threads, signals and
// waiting. It can open nothing, connect to nobody and execute nothing: such calls are answered as by a kernel that has none.
var calls = []uint32{
	unix.SYS_ACCEPT4, unix.SYS_RECVMSG, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FSYNC, unix.SYS_FCNTL, unix.SYS_CLOSE,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK, unix.SYS_PRCTL,
	unix.SYS_CLONE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_TGKILL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM,
}

// requests are the ioctls that it may make.
var requests = []uint32{requestCopy, requestZeroPage, requestWake}

// architectures are the kernel's names of those that this is built for.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in what a filter is shown (struct seccomp_data, little-endian).
const (
	callOffset         = 0
	architectureOffset = 4
	requestOffset      = 24 // of the second argument
)

// filter lets through what is on the lists.
func filter() []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	skip := func(unless uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: n, K: unless}
	}
	end := func(how uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: how} }
	allow, refuse := end(unix.SECCOMP_RET_ALLOW), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS))

	p := []unix.SockFilter{
		load(architectureOffset),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: architectures[runtime.GOARCH]},
		end(unix.SECCOMP_RET_KILL_PROCESS),
		load(callOffset),
	}
	for _, c := range calls {
		p = append(p, skip(c, 1), allow)
	}
	p = append(p, skip(unix.SYS_IOCTL, uint8(1+2*len(requests))), load(requestOffset))
	for _, r := range requests {
		p = append(p, skip(r, 1), allow)
	}
	return append(p, refuse)
}

// confine puts all threads under the filter, and those to come.
func confine() error {
	runtime.LockOSThread() // until the filter is on all
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	p := filter()
	program := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("set the seccomp filter: %w", errno)
	}
	return nil
}
