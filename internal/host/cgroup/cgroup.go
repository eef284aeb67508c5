// Package cgroup limits, watches and ends groups of processes, on cgroup v1 (one tree per controller) and v2 (one tree for all).
//
// A group is named by a path below the root of each tree, and it's one thing on both versions: made whole, joined, killed and removed
// whole. The package keeps no state; what exists is what the kernel says. Every call may be repeated.
package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Limits bound what the processes of a group use together. Zero means no limit. Memory counts page cache too, and swap isn't available
// beyond it.
type Limits struct {
	MemoryBytes int64
	CPUMillis   int64 // thousandths of a CPU
	CPUWeight   int64 // percent of what each other group gets when all want more than there is; 0: 100
	PIDs        int64 // processes and threads
}

// Usage is what a group uses now, or has used since it was made.
type Usage struct {
	MemoryBytes     int64
	MemoryPeakBytes int64 // 0 where the kernel doesn't tell
	CPUNanos        int64
	PIDs            int64
	OOMKills        int64 // processes killed because the group was at its memory limit
}

// controllers are the ones that a group uses. On v2 all accounting of CPU time comes without a controller, and freezing too.
var controllers = []string{"memory", "cpu", "pids"}

// v1Controllers are mounted one by one, or some of them together.
var v1Controllers = []string{"memory", "cpu", "pids", "cpuacct", "freezer"}

// Hierarchy is the machine's cgroup tree or trees.
type Hierarchy struct {
	version int
	roots   map[string]string // controller → where its tree is mounted; v2 has one, under ""
}

// Version is 1 or 2.
func (h Hierarchy) Version() int { return h.version }

// Group is a group of that path, which needn't exist. Its parts are letters, digits and ._- only.
func (h Hierarchy) Group(path string) (Group, error) {
	for part := range strings.SplitSeq(path, "/") {
		if !partRE.MatchString(part) || part == "." || part == ".." {
			return Group{}, fmt.Errorf("cgroup %q: a part of its path is %q, want letters, digits and ._-", path, part)
		}
	}
	return Group{hierarchy: h, path: path}, nil
}

var partRE = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// List returns the names of the groups directly below a path, in order. None if the path has no group.
func (h Hierarchy) List(path string) ([]string, error) {
	names := map[string]bool{}
	for _, root := range h.trees() {
		entries, err := os.ReadDir(filepath.Join(root, path))
		if err != nil && !isGone(err) {
			return nil, fmt.Errorf("list cgroups of %s: %w", path, err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names[e.Name()] = true
			}
		}
	}
	out := make([]string, 0, len(names))
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	return out, nil
}

// trees are the distinct mount points, in order.
func (h Hierarchy) trees() []string {
	var out []string
	for _, root := range h.roots {
		if !slices.Contains(out, root) {
			out = append(out, root)
		}
	}
	slices.Sort(out)
	return out
}

// root is the mount point of a controller's tree.
func (h Hierarchy) root(controller string) string {
	if h.version == 2 {
		return h.roots[""]
	}
	return h.roots[controller]
}
