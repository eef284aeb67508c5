package boot

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/guest/machine"
)

// cgroupRoot is where images expect control groups.
const cgroupRoot = "/sys/fs/cgroup"

// The agent's share when sessions take all the processor or memory they can get.
const (
	agentWeight   = 10000    // of the processor; sessions have 100
	agentReserve  = 24 << 20 // bytes that sessions can't have
	smallestGuest = 96 << 20 // with less memory than this there is nothing to reserve
	agentThreads  = 128      // that sessions can't have: without a thread when it needs one the agent, and so the machine, ends
)

// makeCgroups puts the agent and the sessions into groups of their own, so that no session can starve the agent. A kernel without version
// 2 groups, or without one of the controllers, does without. It returns what can freeze them, and the open directory of the sessions' group.
func makeCgroups() (*machine.Freezer, *os.File) {
	if unix.Mount("cgroup2", cgroupRoot, "cgroup2", safest, "nsdelegate,memory_recursiveprot") != nil {
		return nil, nil
	}
	agent, sessions := path.Join(cgroupRoot, "agent"), path.Join(cgroupRoot, "sessions")
	if os.Mkdir(agent, 0o755) != nil || os.Mkdir(sessions, 0o755) != nil {
		return nil, nil
	}
	if !set(agent, "cgroup.procs", "1") {
		return nil, nil
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		set(cgroupRoot, "cgroup.subtree_control", "+"+controller)
	}
	set(agent, "cpu.weight", strconv.Itoa(agentWeight))
	set(agent, "memory.min", strconv.Itoa(agentReserve))
	if total := memoryTotal(); total > smallestGuest {
		set(sessions, "memory.max", strconv.FormatUint(total-agentReserve, 10))
	}
	if threads := threadsMax(); threads > 2*agentThreads {
		set(sessions, "pids.max", strconv.Itoa(threads-agentThreads))
	}
	dir, err := os.Open(sessions)
	if err != nil {
		return nil, nil
	}
	root, err := os.OpenRoot(cgroupRoot)
	if err != nil {
		return nil, nil
	}
	return &machine.Freezer{Root: root, Agent: path.Base(agent), Sessions: path.Base(sessions)}, dir
}

// set writes a value to a group's file and reports whether the kernel took it.
func set(group, file, value string) bool {
	return os.WriteFile(path.Join(group, file), []byte(value), 0) == nil
}

// memoryTotal is the machine's memory in bytes, 0 if it can't be told.
func memoryTotal() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return info.Totalram * uint64(info.Unit)
}

// threadsMax is how many threads the kernel lets there be, kernel threads included, 0 if it can't be told.
func threadsMax() int {
	b, err := os.ReadFile("/proc/sys/kernel/threads-max")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return n
}
