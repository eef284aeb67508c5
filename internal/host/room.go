package host

import (
	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/meminfo"
)

// What must be left for another machine, so that what exists already can go on.
const (
	minFree      = 256 << 20 // bytes free on the volume
	minAvailable = 256 << 20 // bytes of memory, or
	memoryShare  = 32        // of all memory this part, if that's more
)

// hostShare is the part of all memory that isn't promised to sandboxes: the kernel's, the daemons', the warm pool's, and what machines take beside their guests' memory.
const hostShare = 8

// promise is how much memory sandboxes may be promised together. As long as that is no more than there is, none of them can touch a page that the host doesn't have.
func promise(total int64, overcommit int) uint64 {
	return uint64(total-total/hostShare) * uint64(max(overcommit, 1))
}

// room says why the node has no room for another machine.
func room(v disk.Volume) error {
	u, err := v.Usage()
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
	if u.FreeBytes < minFree || levelOf(u) == pressureRefusing {
		return space.VolumeFull(uint64(max(u.FreeBytes, 0)), uint64(max(u.Bytes, 0)))
	}
	if least := max(minAvailable, m.Total/memoryShare); m.Total > 0 && m.Available < least {
		return space.Errorf(space.CodeCapacity, "the node has %d MiB of memory available, and a sandbox needs %d", m.Available>>20, least>>20)
	}
	return nil
}
