package host

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/meminfo"
)

// What must be left for another machine, so that what exists already can go on.
const (
	minAvailable = 256 << 20 // bytes of memory, or
	memoryShare  = 32        // of all memory this part, if that's more
)

// What isn't promised to machines: the kernel's, the daemons', the database's. The warm pool lives in what hasn't been promised yet.
const (
	hostShare = 8       // of all memory this part, or
	hostLeast = 1 << 30 // bytes, if that's more: a node without sandboxes takes some 600 MB, and saves may hold 384 MiB
)

// pagerBytes is what the process takes that brings a machine's memory page by page: 5 to 9 MiB were measured.
const pagerBytes = 12 << 20

// promisable is how much memory machines may be promised together. As long as that is no more than there is, none of them can touch a page that the host doesn't have.
func promisable(total int64, overcommit int) int64 {
	return max(total-max(total/hostShare, hostLeast), 0) * int64(max(overcommit, 1))
}

// overhead is what a machine is promised beside its guest's memory.
func (c Config) overhead() int64 {
	n := c.Driver.Capabilities().OverheadBytes
	if c.Paged {
		n += pagerBytes
	}
	return n
}

// room says why the node has no room for another machine.
func room(usage func() (disk.Usage, error)) error {
	u, err := usage()
	if err != nil {
		return err
	}
	m, err := meminfo.Read()
	if err != nil {
		return err
	}
	return roomIn(u, m)
}

func roomIn(u disk.Usage, m meminfo.Facts) error {
	if levelOf(u) == pressureRefusing {
		return space.VolumeFull(uint64(max(u.FreeBytes, 0)), uint64(max(u.Bytes, 0)))
	}
	if least := max(minAvailable, m.Total/memoryShare); m.Total > 0 && m.Available < least {
		return space.Errorf(space.CodeCapacity, "the node has %d MiB of memory available, and a sandbox needs %d", m.Available>>20, least>>20)
	}
	return nil
}
