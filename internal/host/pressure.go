package host

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
	"github.com/space-platform/space/internal/host/disk"
	"github.com/space-platform/space/internal/host/meminfo"
)

// How full the volume may become, in percent.
const (
	warnPercent   = 90 // operators are warned
	refusePercent = 95 // and nothing new begins: what's left is for what runs, for deletes, and for suspends
)

// The levels of pressure, as facts have them.
const (
	pressureNone     = ""
	pressureWarning  = "warning"
	pressureRefusing = "refusing"
)

const (
	lookInterval = 10 * time.Second
	lookPressed  = time.Second // while the volume is so full that something is refused, or soon will be: who has made room tries again at once
	toldPercent  = 1           // of all of it: a smaller change isn't told
	percent      = 100
)

// levelOf is the pressure of a volume.
func levelOf(u disk.Usage) string {
	switch used := u.Bytes - u.FreeBytes; {
	case used*percent >= u.Bytes*refusePercent:
		return pressureRefusing
	case used*percent >= u.Bytes*warnPercent:
		return pressureWarning
	default:
		return pressureNone
	}
}

// pressure watches what the node has left, and tells it.
type pressure struct {
	volume  disk.Volume
	reserve *disk.Reserve // for suspends
	spare   *disk.Reserve // for sessions
	largest func() int64  // bytes of memory of the largest sandbox that may have to be suspended
	changed func()

	keeping sync.Mutex // held by who decides how large the reserve is, and who are there

	mu    sync.Mutex           // guards facts
	facts *controlv1.NodeFacts // replaced, never changed
}

func newPressure(v disk.Volume, facts *controlv1.NodeFacts, changed func()) (*pressure, error) {
	reserve, err := disk.OpenReserve(filepath.Join(v.Path, reserveName), reservePiece)
	if err != nil {
		return nil, err
	}
	spare, err := disk.OpenReserve(filepath.Join(v.Path, spareName), sparePiece)
	if err != nil {
		return nil, err
	}
	return &pressure{volume: v, facts: facts, changed: changed, reserve: reserve, spare: spare}, nil
}

// Facts are what the node is told to have.
func (p *pressure) Facts() *controlv1.NodeFacts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.facts
}

// watch looks again and again until ctx ends.
func (p *pressure) watch(ctx context.Context, look func() error) {
	for {
		if err := look(); err != nil {
			slog.Error("can't tell what the node has left", "err", err)
		}
		next := time.NewTimer(lookInterval)
		if p.Facts().GetDiskPressure() != pressureNone {
			next.Reset(lookPressed)
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return
		}
	}
}

// usage is how full the volume is for who isn't a suspend and no session: what is lent to those isn't free.
func (p *pressure) usage() (disk.Usage, error) {
	u, err := p.volume.Usage()
	for _, r := range []*disk.Reserve{p.reserve, p.spare} {
		missing, failure := r.Missing()
		err = cmp.Or(err, failure)
		u.FreeBytes = max(u.FreeBytes-missing, 0)
	}
	return u, err
}

// look tells what has changed, and keeps the reserve while there's room for it.
func (p *pressure) look() error {
	u, err := p.usage()
	if err != nil {
		return err
	}
	m, err := meminfo.Read()
	if err != nil {
		return err
	}
	if err := p.keep(u); err != nil {
		return err
	}
	p.tell(u, m)
	return nil
}

// tell replaces the facts if they're worth it.
func (p *pressure) tell(u disk.Usage, m meminfo.Facts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, level := p.facts, levelOf(u)
	if old.GetDiskPressure() == level && near(old.GetDiskFreeBytes(), u.FreeBytes, u.Bytes) && near(old.GetMemoryAvailableBytes(), m.Available, m.Total) {
		return
	}
	if level != old.GetDiskPressure() {
		slog.Warn("the volume's fullness has changed", "pressure", level, "free_mib", u.FreeBytes>>20, "of_mib", u.Bytes>>20)
	}
	p.facts = proto.CloneOf(old)
	p.facts.DiskBytes, p.facts.DiskFreeBytes, p.facts.DiskPressure = uint64(u.Bytes), uint64(u.FreeBytes), level
	p.facts.MemoryAvailableBytes = uint64(m.Available)
	p.changed()
}

// near tells whether two amounts of the same whole are the same for who is told.
func near(told uint64, now, whole int64) bool {
	off := int64(told) - now
	return told != 0 && max(off, -off)*percent <= whole*toldPercent
}
