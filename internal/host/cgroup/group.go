package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is a name for a group; the kernel knows whether it exists.
type Group struct {
	hierarchy Hierarchy
	path      string
}

// Path is the group's path below the root of each tree.
func (g Group) Path() string { return g.path }

// Create makes the group with its limits, and the groups above it without any. A group that's there already gets the limits.
func (g Group) Create(l Limits) error {
	for _, root := range g.hierarchy.trees() {
		if err := g.makeDirs(root); err != nil {
			return fmt.Errorf("make cgroup %s: %w", g.path, err)
		}
	}
	return g.set(g.settings(l)...)
}

// Weigh changes the group's CPUWeight to that of the limits.
func (g Group) Weigh(l Limits) error {
	if g.hierarchy.version == 2 {
		return g.set(weightV2(l))
	}
	return g.set(weightV1(l))
}

func (g Group) set(settings ...setting) error {
	for _, s := range settings {
		if err := write(g.file(s.controller, s.file), s.value); err != nil {
			if s.optional && isGone(err) {
				continue
			}
			return fmt.Errorf("limit cgroup %s: %w", g.path, err)
		}
	}
	return nil
}

// makeDirs makes the group's directory in one tree, level by level: v2 wants the controllers passed on at each.
func (g Group) makeDirs(root string) error {
	dir := root
	for part := range strings.SplitSeq(g.path, "/") {
		if g.hierarchy.version == 2 {
			if err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +")); err != nil {
				return err
			}
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// Exists tells whether any tree has the group.
func (g Group) Exists() bool {
	for _, root := range g.hierarchy.trees() {
		if _, err := os.Lstat(filepath.Join(root, g.path)); err == nil {
			return true
		}
	}
	return false
}

// Add moves a process into the group.
func (g Group) Add(pid int) error { return g.join("cgroup.procs", pid) }

// AddThread moves one thread into the group, so that the processes which it starts are born there. It's for v1 only: on v2 a process is
// born in the group whose directory is passed to clone (see Dir).
func (g Group) AddThread(tid int) error { return g.join("tasks", tid) }

func (g Group) join(file string, id int) error {
	for _, root := range g.hierarchy.trees() {
		if err := write(filepath.Join(root, g.path, file), strconv.Itoa(id)); err != nil {
			return fmt.Errorf("add %d to cgroup %s: %w", id, g.path, err)
		}
	}
	return nil
}

// Dir opens the group's directory, for clone's CLONE_INTO_CGROUP. It's for v2 only.
func (g Group) Dir() (*os.File, error) {
	return os.OpenFile(filepath.Join(g.hierarchy.root(""), g.path), unix.O_PATH|unix.O_DIRECTORY, 0)
}

// Processes returns the pids of the group, from all trees, each once.
func (g Group) Processes() ([]int, error) {
	seen := map[int]bool{}
	var out []int
	for _, root := range g.hierarchy.trees() {
		b, err := os.ReadFile(filepath.Join(root, g.path, "cgroup.procs"))
		if err != nil && !isGone(err) {
			return nil, fmt.Errorf("list processes of cgroup %s: %w", g.path, err)
		}
		for f := range strings.FieldsSeq(string(b)) {
			pid, err := strconv.Atoi(f)
			if err != nil || pid == 0 || seen[pid] { // 0: of a pid namespace that we can't see
				continue
			}
			seen[pid] = true
			out = append(out, pid)
		}
	}
	return out, nil
}

func (g Group) file(controller, name string) string {
	return filepath.Join(g.hierarchy.root(controller), g.path, name)
}

// write writes a control file, which exists already: a missing one is a missing feature.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(value); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// isGone tells whether a group or a control file isn't there: a removed group's open files answer ENODEV.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
