package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/proc"
)

const (
	busyWait = 5 * time.Second       // how long something that was let go may stay busy
	busyPoll = 20 * time.Millisecond // how often it's tried again: the kernel tells nobody
)

// RemoveKernelObjects takes away what the instance has in the kernel: processes in its cgroups, the cgroups, network namespaces, mounts,
// loop devices, and the directories of machines with their sockets. The roles and the machines must have ended.
func RemoveKernelObjects(ctx context.Context, i instance.Instance) error {
	for _, step := range []func(context.Context, instance.Instance) error{removeCgroups, removeNetworkNamespaces, unmountAll, detachLoops, removeEnclosures} {
		if err := step(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// Leftovers names what the instance has in the kernel: for people, and for tests that want nothing left.
func Leftovers(i instance.Instance) ([]string, error) {
	var out []string
	n, err := Machines(i)
	if err != nil {
		return nil, err
	}
	if n > 0 {
		out = append(out, fmt.Sprintf("%d machines", n))
	}
	mounts, err := ownMounts(i)
	if err != nil {
		return nil, err
	}
	loops, err := loops(i)
	if err != nil {
		return nil, err
	}
	return slices.Concat(out, cgroups(i), networkNamespaces(i), mounts, loops, enclosures(i)), nil
}

// enclosures are the directories of machines.
func enclosures(i instance.Instance) []string {
	paths, _ := filepath.Glob(filepath.Join(i.EnclosuresDir(), "*")) // the pattern is well-formed
	return paths
}

// removeEnclosures removes the directories of machines. What is mounted below them must be unmounted: nothing of a user's may be there.
func removeEnclosures(_ context.Context, i instance.Instance) error {
	for _, path := range enclosures(i) {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what a machine left: %w", err)
		}
	}
	return nil
}

func networkNamespaces(i instance.Instance) []string {
	paths, _ := filepath.Glob(filepath.Join(instance.NetNSDir, i.Prefix()+"*")) // the pattern is well-formed
	return paths
}

func removeNetworkNamespaces(_ context.Context, i instance.Instance) error {
	for _, path := range networkNamespaces(i) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount network namespace %s: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove network namespace: %w", err)
		}
	}
	return nil
}

// cgroups returns the instance's directories, deepest first, in each v1 hierarchy and in the v2 one.
func cgroups(i instance.Instance) []string {
	var out []string
	for _, pattern := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
		roots, _ := filepath.Glob(filepath.Join(pattern, i.Cgroup()))
		for _, root := range roots {
			filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					out = append(out, path)
				}
				return nil // a directory that vanished meanwhile is what we want
			})
		}
	}
	slices.SortFunc(out, deepestFirst)
	return slices.Compact(out)
}

func deepestFirst(a, b string) int {
	if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func removeCgroups(ctx context.Context, i instance.Instance) error {
	dirs := cgroups(i)
	for _, d := range dirs {
		if err := killCgroup(ctx, d); err != nil {
			return fmt.Errorf("end the processes of %s: %w", d, err)
		}
	}
	for _, d := range dirs {
		if err := whileBusy(ctx, func() error { return unix.Rmdir(d) }); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	for _, d := range dirs {
		unix.Rmdir(filepath.Dir(d)) // the one that all instances share stays while another has something there
	}
	return nil
}

func killCgroup(ctx context.Context, dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil // gone, or a v2 directory of threads only
	}
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			continue
		}
		id, err := proc.Read(pid)
		if err != nil {
			continue
		}
		if err := proc.End(ctx, id, killGrace); err != nil {
			return err
		}
	}
	return nil
}

// whileBusy repeats a call while the kernel says that something is still in use.
func whileBusy(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, busyWait)
	defer cancel()
	tick := time.NewTicker(busyPoll)
	defer tick.Stop()
	for {
		err := do()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
