package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/space-platform/space/internal/host/netns"
)

// Kind is what a leftover is.
type Kind string

// The kinds, in the order in which they're removed.
const (
	Process   Kind = "process"
	Group     Kind = "cgroup"
	Namespace Kind = "network namespace"
	Directory Kind = "directory"
)

// Leftover is something of the instance that belongs to no known enclosure.
type Leftover struct {
	Kind Kind
	ID   string // of the enclosure; for a process its pid
	UID  int    // of a process
}

// Leftovers returns what there is beside the known enclosures, which are uids by id.
func (j *Jail) Leftovers(known map[string]int) ([]Leftover, error) {
	out, err := j.strayProcesses(known)
	if err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	groups, gerr := j.groups.List(j.instance.Cgroup())
	namespaces, nerr := netns.List(j.instance.Prefix())
	dirs, derr := os.ReadDir(j.dir)
	if errors.Is(derr, os.ErrNotExist) {
		derr = nil
	}
	if err := errors.Join(gerr, nerr, derr); err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	add := func(k Kind, id string) {
		if _, ok := known[id]; !ok {
			out = append(out, Leftover{Kind: k, ID: id})
		}
	}
	for _, name := range groups {
		add(Group, name)
	}
	for _, name := range namespaces {
		add(Namespace, strings.TrimPrefix(name, j.instance.Prefix()))
	}
	for _, d := range dirs {
		add(Directory, d.Name())
	}
	return out, nil
}

func (j *Jail) strayProcesses(known map[string]int) ([]Leftover, error) {
	found, err := processes(j.instance.VMUIDs())
	if err != nil {
		return nil, err
	}
	uids := map[int]bool{}
	for _, uid := range known {
		uids[uid] = true
	}
	var out []Leftover
	for _, p := range found {
		if !uids[p.uid] {
			out = append(out, Leftover{Kind: Process, ID: fmt.Sprint(p.id.PID), UID: p.uid})
		}
	}
	return out, nil
}

// Sweep removes everything that Leftovers finds, and returns it. Each thing is tried; the error names what is still there.
func (j *Jail) Sweep(ctx context.Context, known map[string]int) ([]Leftover, error) {
	found, err := j.Leftovers(known)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, l := range found {
		if err := j.removeLeftover(ctx, l); err != nil {
			errs = append(errs, fmt.Errorf("remove %s %s: %w", l.Kind, l.ID, err))
		}
	}
	if len(known) == 0 { // nothing uses the instance's own group either
		if group, err := j.groups.Group(j.instance.Cgroup()); err == nil {
			errs = append(errs, group.Remove(ctx))
		}
	}
	return found, errors.Join(errs...)
}

func (j *Jail) removeLeftover(ctx context.Context, l Leftover) error {
	switch l.Kind {
	case Process:
		return EndUID(ctx, l.UID)
	case Group:
		group, err := j.group(l.ID)
		if err != nil {
			return err
		}
		if err := group.Kill(ctx); err != nil {
			return err
		}
		return group.Remove(ctx)
	case Namespace:
		return netns.Remove(j.netNS(l.ID))
	default:
		return os.RemoveAll(j.dirOf(l.ID))
	}
}
