//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/space-platform/space/internal/instance"
)

// leftovers lists what is still there of an instance that was removed. It asks the kernel and the file system, not our own code.
func leftovers(i instance.Instance) []error {
	var found []error
	report := func(format string, args ...any) { found = append(found, fmt.Errorf("left over: "+format, args...)) }
	for _, p := range processes(belongsTo(i)) {
		report("process %d: %s", p, commandLine(p))
	}
	for _, pattern := range []string{
		filepath.Join(instance.NetNSDir, i.Prefix()+"*"), i.DataDir(), i.RunDir(), i.LogDir(),
		"/sys/fs/cgroup/" + i.Cgroup(), "/sys/fs/cgroup/*/" + i.Cgroup(),
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			report("%s: %v", pattern, err)
		}
		for _, p := range paths {
			report("%s", p)
		}
	}
	for _, file := range []string{"/proc/self/mounts", "/etc/passwd", "/etc/group"} {
		b, err := os.ReadFile(file)
		if err != nil {
			report("%s: %v", file, err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, i.DataDir()+"/") || strings.Contains(line, i.Prefix()) || strings.HasPrefix(line, i.Group()+":") {
				report("%s: %s", file, strings.TrimSpace(line))
			}
		}
	}
	backing, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range backing {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), i.DataDir()+"/") {
			report("loop device %s: %s", f, strings.TrimSpace(string(b)))
		}
	}
	return found
}

// belongsTo picks the processes of an instance: those of its users and machines, and root's that name it.
func belongsTo(i instance.Instance) func(uid int, cmd string) bool {
	_, last := i.VMUIDs()
	return func(uid int, cmd string) bool {
		return uid > i.GID() && uid <= last || strings.Contains(cmd+" ", "--instance "+i.Name+" ")
	}
}

// processes returns the pids whose uid and command line the function picks. A zombie holds nothing: its parent only hasn't looked yet.
func processes(pick func(uid int, cmd string) bool) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var out []int
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		uid, ok := statusInt(pid, "Uid")
		if ok && pid != os.Getpid() && !strings.HasPrefix(status(pid, "State"), "Z") && pick(uid, commandLine(pid)) {
			out = append(out, pid)
		}
	}
	return out
}

func commandLine(pid int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}

// status returns a line of /proc/PID/status.
func status(pid int, field string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func statusInt(pid int, field string) (int, bool) {
	f := strings.Fields(status(pid, field))
	if len(f) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(f[0])
	return n, err == nil
}
