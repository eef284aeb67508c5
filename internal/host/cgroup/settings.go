package cgroup

import (
	"cmp"
	"strconv"
)

// cpuPeriod is the time over which CPU time is counted, in microseconds; the kernel's default.
const cpuPeriod = 100_000

// The weights of a group that doesn't say otherwise; the kernel's defaults.
const (
	usualShares = 1024 // v1
	usualWeight = 100  // v2, and in Limits
)

// setting is one value to write. Optional ones may be missing in a kernel: swap accounting.
type setting struct {
	controller, file, value string
	optional                bool
}

// settings turns limits into what's to be written, in this order: v1 refuses a memory limit above that of memory and swap.
func (g Group) settings(l Limits) []setting {
	if g.hierarchy.version == 2 {
		return settingsV2(l)
	}
	return settingsV1(l)
}

func settingsV1(l Limits) []setting {
	quota := int64(-1)
	if l.CPUMillis > 0 {
		quota = l.CPUMillis * cpuPeriod / 1000
	}
	memory := "-1"
	if l.MemoryBytes > 0 {
		memory = decimal(l.MemoryBytes)
	}
	return []setting{
		{"memory", "memory.memsw.limit_in_bytes", "-1", true},
		{"memory", "memory.limit_in_bytes", memory, false},
		{"memory", "memory.memsw.limit_in_bytes", memory, true},
		{"cpu", "cpu.cfs_period_us", decimal(cpuPeriod), false},
		{"cpu", "cpu.cfs_quota_us", decimal(quota), false},
		weightV1(l),
		{"pids", "pids.max", orMax(l.PIDs), false},
	}
}

func settingsV2(l Limits) []setting {
	cpu := "max"
	if l.CPUMillis > 0 {
		cpu = decimal(l.CPUMillis * cpuPeriod / 1000)
	}
	return []setting{
		{"memory", "memory.max", orMax(l.MemoryBytes), false},
		{"memory", "memory.swap.max", "0", true},
		{"memory", "memory.oom.group", "1", true},
		{"cpu", "cpu.max", cpu + " " + decimal(cpuPeriod), false},
		weightV2(l),
		{"pids", "pids.max", orMax(l.PIDs), false},
	}
}

func weightV1(l Limits) setting {
	return setting{"cpu", "cpu.shares", decimal(usualShares * l.weight() / usualWeight), false}
}

func weightV2(l Limits) setting { return setting{"cpu", "cpu.weight", decimal(l.weight()), true} }

func (l Limits) weight() int64 { return cmp.Or(max(l.CPUWeight, 0), usualWeight) }

func orMax(n int64) string {
	if n <= 0 {
		return "max"
	}
	return decimal(n)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
