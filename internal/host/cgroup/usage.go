package cgroup

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage reads what the group uses. fs.ErrNotExist is wrapped if there's no group.
func (g Group) Usage() (Usage, error) {
	r := reader{group: g}
	if g.hierarchy.version == 2 {
		u := Usage{
			MemoryBytes: r.number("memory", "memory.current"),
			CPUNanos:    1000 * r.field("cpu", "cpu.stat", "usage_usec"),
			PIDs:        r.number("pids", "pids.current"),
			OOMKills:    r.field("memory", "memory.events", "oom_kill"),
		}
		u.MemoryPeakBytes = r.optional("memory", "memory.peak")
		return u, r.err
	}
	return Usage{
		MemoryBytes:     r.number("memory", "memory.usage_in_bytes"),
		MemoryPeakBytes: r.number("memory", "memory.max_usage_in_bytes"),
		CPUNanos:        r.number("cpuacct", "cpuacct.usage"),
		PIDs:            r.number("pids", "pids.current"),
		OOMKills:        r.field("memory", "memory.oom_control", "oom_kill"),
	}, r.err
}

// reader reads control files until the first error.
type reader struct {
	group Group
	err   error
}

func (r *reader) number(controller, file string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(r.text(controller, file)), 10, 64)
	r.fail(file, err)
	return n
}

// optional is a number that a kernel may not have: 0 then.
func (r *reader) optional(controller, file string) int64 {
	b, err := os.ReadFile(r.group.file(controller, file))
	if isGone(err) {
		return 0
	}
	r.fail(file, err)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

// field is the number behind a key in a file of "key number" lines.
func (r *reader) field(controller, file, key string) int64 {
	for line := range strings.Lines(r.text(controller, file)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), " ")
		if k == key {
			n, err := strconv.ParseInt(v, 10, 64)
			r.fail(file, err)
			return n
		}
	}
	return 0
}

func (r *reader) text(controller, file string) string {
	if r.err != nil {
		return ""
	}
	b, err := os.ReadFile(r.group.file(controller, file))
	r.fail(file, err)
	return string(b)
}

func (r *reader) fail(file string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("read usage of cgroup %s: %s: %w", r.group.path, file, err)
	}
}
