package host

import (
	"errors"
	"log/slog"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/disk"
)

// How much of the volume is kept for suspends.
const (
	reserveName    = "reserve"
	reservePercent = 2        // of the volume, whatever runs,
	usualReserve   = 1 << 30  // bytes, at most;
	reserveShare   = 4        // and a quarter of it at most for the largest sandbox, whose suspend may write
	flushShare     = 4        // its memory, before that what its guest hasn't written to its disk yet (Linux has a fifth of the memory wait at most),
	suspendBeside  = 64 << 20 // and bytes for the state of its devices, its sessions' output, and names
	reservePiece   = 16 << 20
)

// How much of the volume is kept for the sessions of what runs, each of which writes a few KiB before it begins. It's apart from what is kept for suspends: a guest that goes on
// filling the volume takes what a session leaves of what it was lent.
const (
	spareName     = "spare"
	sparePerMille = 5        // of the volume,
	usualSpare    = 64 << 20 // bytes, at most
	sparePiece    = 1 << 20  // for one session
)

// spareOf is what is kept of a volume for sessions.
func spareOf(u disk.Usage) int64 { return min(u.Bytes/1000*sparePerMille, usualSpare) }

// reserveFor is what must be kept of a volume for the suspend of a sandbox with so much memory.
func reserveFor(u disk.Usage, memory int64) int64 {
	usual := min(u.Bytes/percent*reservePercent, usualReserve)
	if memory == 0 {
		return usual
	}
	return max(usual, min(suspendBytes(memory), u.Bytes/reserveShare))
}

// suspendBytes is what the suspend of a sandbox with so much memory may write.
func suspendBytes(memory int64) int64 { return memory + memory/flushShare + suspendBeside }

// reserveNow is what is to be kept while the largest sandbox has so much memory. What has been kept for a larger one isn't let go of before its room is missed, so that
// sandboxes that come and go don't wait for it each time.
func reserveNow(u disk.Usage, kept, largest int64) int64 {
	want := reserveFor(u, largest)
	if levelOf(u) == pressureNone {
		return max(want, kept)
	}
	return want
}

// checkReserve says why a sandbox with so much memory can't be begun on a volume: what must be kept for its suspend is so much more than what is kept that nothing new could
// begin any more.
func checkReserve(u disk.Usage, kept, memory int64) error {
	more := reserveFor(u, memory) - kept
	if more <= 0 {
		return nil
	}
	after := u
	after.FreeBytes = max(u.FreeBytes-more, 0)
	if levelOf(after) != pressureRefusing {
		return nil
	}
	return space.Errorf(space.CodeCapacity, "the node's volume has %d MiB of %d free, and to be able to suspend a sandbox with %d MiB of memory it must keep %d MiB more",
		u.FreeBytes>>20, u.Bytes>>20, memory>>20, more>>20)
}

// keep keeps what the sandboxes need that are there.
func (p *pressure) keep(u disk.Usage) error {
	p.keeping.Lock()
	defer p.keeping.Unlock()
	return errors.Join(p.reserve.Keep(reserveNow(u, p.reserve.Bytes(), p.largest())), p.spare.Keep(spareOf(u)))
}

// Keep keeps what the suspend of a sandbox with so much memory needs, or says why it can't: a *space.Error. The sandbox is one of those that are there.
func (p *pressure) Keep(memory int64) error {
	p.keeping.Lock() // two that begin at once may not both have the same room
	defer p.keeping.Unlock()
	u, err := p.usage()
	if err != nil {
		return err
	}
	kept := p.reserve.Bytes()
	if err := checkReserve(u, kept, memory); err != nil {
		return err
	}
	if want := reserveFor(u, memory); want > kept {
		return p.reserve.Keep(want)
	}
	return nil
}

// Reserve lets the suspend of a sandbox with so much memory use what's kept for it, if there's no other room.
func (p *pressure) Reserve(memory int64) (done func()) {
	need := suspendBytes(memory)
	u, err := p.usage()
	if err == nil && levelOf(u) != pressureRefusing && u.FreeBytes >= need {
		return func() {}
	}
	return lend(p.reserve, need)
}

// Spare lets a session that has found no room use some of what's kept for sessions.
func (p *pressure) Spare() (done func()) { return lend(p.spare, sparePiece) }

func lend(r *disk.Reserve, bytes int64) (done func()) {
	giveBack, err := r.Lend(bytes)
	if err != nil {
		slog.Error("what is kept of the volume can't be used", "err", err)
	}
	return func() {
		if err := giveBack(); err != nil {
			slog.Error("what was used of the volume isn't kept anew", "err", err)
		}
	}
}
