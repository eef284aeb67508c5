package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
)

// processorTime is what the processes of each role have used of the processors, by the role's name.
type processorTime map[string]time.Duration

func (p processorTime) roles() []string { return slices.Sorted(maps.Keys(p)) }

// clockTick is the unit of /proc/PID/stat; see proc_pid_stat(5). Linux has it at 100 Hz everywhere.
const clockTick = 10 * time.Millisecond

// processorTime reads what the platform's processes have used, PostgreSQL's workers that have ended included by their parent.
func (p *platform) processorTime() (processorTime, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	out := processorTime{}
	for _, dir := range dirs {
		role := p.roleOf(dir)
		if role == "" {
			continue
		}
		used, err := usedBy(dir)
		if err != nil {
			continue // it has ended
		}
		out[role] += used
	}
	if len(out) < len(instance.Roles()) {
		return nil, fmt.Errorf("read processor times: of %d roles, only %v were found", len(instance.Roles()), out.roles())
	}
	return out, nil
}

// machineTime reads what the processes of the platform's machines have used.
func (p *platform) machineTime() (sum time.Duration, err error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	first, last := p.inst.VMUIDs()
	for _, dir := range dirs {
		var info unix.Stat_t
		if unix.Stat(dir, &info) != nil || int(info.Uid) < first || int(info.Uid) > last {
			continue
		}
		if used, err := usedBy(dir); err == nil { // else it has ended
			sum += used
		}
	}
	return sum, nil
}

// roleOf tells which role of the platform a process has; "" for none.
func (p *platform) roleOf(dir string) string {
	var info unix.Stat_t
	if unix.Stat(dir, &info) != nil {
		return ""
	}
	if int(info.Uid) == p.inst.UID(instance.Postgres) {
		return string(instance.Postgres)
	}
	exe, _ := os.Readlink(filepath.Join(dir, "exe"))
	line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
	args := strings.Split(string(line), "\x00")
	if !strings.HasPrefix(exe, filepath.Join(p.inst.BinDir(), "space")) || len(args) < 2 {
		return ""
	}
	return args[1]
}

// usedBy is the processor time of a process and of its children that have ended.
func usedBy(dir string) (time.Duration, error) {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime, counted from the state
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
