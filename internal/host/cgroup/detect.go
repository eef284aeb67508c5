package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mountInfo is the process's view of what is mounted.
const mountInfo = "/proc/self/mountinfo"

// Detect finds the machine's cgroup trees: v2 where it has the memory, CPU and pids controllers, else v1. The error names what's missing.
func Detect() (Hierarchy, error) {
	f, err := os.Open(mountInfo)
	if err != nil {
		return Hierarchy{}, fmt.Errorf("find cgroups: %w", err)
	}
	defer f.Close()
	unified, v1, err := parseMounts(f)
	if err != nil {
		return Hierarchy{}, fmt.Errorf("find cgroups: %w", err)
	}
	if unified != "" {
		if has, err := availableV2(unified); err == nil && len(missing(controllers, has)) == 0 {
			return Hierarchy{version: 2, roots: map[string]string{"": unified}}, nil
		}
	}
	var has []string
	for c := range v1 {
		has = append(has, c)
	}
	if m := missing(v1Controllers, has); len(m) > 0 {
		return Hierarchy{}, fmt.Errorf("find cgroups: no controller %s, neither in v1 nor in v2", strings.Join(m, ", "))
	}
	return Hierarchy{version: 1, roots: v1}, nil
}

func missing(want, has []string) []string {
	var out []string
	for _, c := range want {
		if !slices.Contains(has, c) {
			out = append(out, c)
		}
	}
	return out
}

func availableV2(root string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	return strings.Fields(string(b)), err
}

// parseMounts returns where v2 is mounted, and where each v1 controller is that we use. The first mount of each counts.
func parseMounts(r io.Reader) (unified string, v1 map[string]string, err error) {
	v1 = map[string]string{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		before, after, ok := strings.Cut(s.Text(), " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(fs) < 3 {
			continue
		}
		point := fields[4]
		switch fs[0] {
		case "cgroup2":
			if unified == "" {
				unified = point
			}
		case "cgroup":
			for option := range strings.SplitSeq(fs[2], ",") {
				if slices.Contains(v1Controllers, option) && v1[option] == "" {
					v1[option] = point
				}
			}
		}
	}
	return unified, v1, s.Err()
}
