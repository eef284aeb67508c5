// Package jail makes the enclosures in which VMMs run on one machine: network namespace, cgroup, uid, directory, and a way to start a
// program inside (vmm.Starter). A program may be a VMM's own jailer, which starts with more rights and confines the VMM once more.
//
// A program in an enclosure has a uid of its own and no group, no capability and no way to gain one, mount, IPC, UTS and network
// namespaces of its own, a root directory that holds the host's /usr and the named files and is read-only, a memory, CPU and process
// limit, and no descriptor that it wasn't given. The seccomp filter is the VMM's own: only it knows what it needs.
//
// Everything carries the instance's name and the enclosure's, so what exists can be found without records, and removed when no record
// claims it. A program outlives the daemon that started it.
//
// Starting one changes a thread instead of executing a helper: the thread enters and builds the namespaces, gives up its rights, forks the
// program, and ends. A thread can do that in 2 ms where a helper costs an exec and a runtime's start.
package jail

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/space-platform/space/internal/host/cgroup"
	"github.com/space-platform/space/internal/host/netns"
	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/instance"
)

// TapName is the tap device's name in every enclosure.
const TapName = "tap0"

// GuestMAC is the guest's address on it, the same in every clone of a snapshot.
const GuestMAC = "06:00:ac:10:00:02"

// Jail makes and removes the enclosures of one instance.
type Jail struct {
	instance instance.Instance
	groups   cgroup.Hierarchy
	dir      string // holds a directory per enclosure

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	reapers sync.WaitGroup
}

// New finds the machine's cgroups. The caller closes it.
func New(i instance.Instance) (*Jail, error) {
	groups, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	j := &Jail{instance: i, groups: groups, dir: i.EnclosuresDir()}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j, nil
}

// Close stops waiting for the programs that were started, which run on.
func (j *Jail) Close() {
	j.cancel()
	j.reapers.Wait()
}

// Spec is an enclosure to make. The caller chooses a uid that nothing else uses, from instance.VMUIDs.
type Spec struct {
	ID     string // an execution's id, or a template's
	UID    int    // and gid
	Limits cgroup.Limits
}

// idRE keeps an id usable in every kind of name; a socket's path below the directory must stay below 108 bytes.
var idRE = regexp.MustCompile(`^[a-z][a-z0-9_]{0,35}$`)

func (j *Jail) check(s Spec) error {
	if !idRE.MatchString(s.ID) {
		return fmt.Errorf("enclosure %q: an id is a letter and up to 35 more of a-z, 0-9 and _", s.ID)
	}
	if first, last := j.instance.VMUIDs(); s.UID < first || s.UID > last {
		return fmt.Errorf("enclosure %s: uid %d isn't one of this instance's machines, %d to %d", s.ID, s.UID, first, last)
	}
	return nil
}

// Find returns the enclosure of a spec as Enclose made it, in this or another life of the daemon. It touches nothing.
func (j *Jail) Find(s Spec) vmm.Enclosure {
	return vmm.Enclosure{
		ID: s.ID, UID: s.UID, NetNS: netns.Path(j.netNS(s.ID)), Tap: TapName, MAC: GuestMAC, Dir: j.dirOf(s.ID),
		Starter: &starter{jail: j, spec: s},
	}
}

func (j *Jail) netNS(id string) string { return j.instance.Prefix() + id }

func (j *Jail) dirOf(id string) string { return filepath.Join(j.dir, id) }

func (j *Jail) group(id string) (cgroup.Group, error) {
	return j.groups.Group(filepath.Join(j.instance.Cgroup(), id))
}
