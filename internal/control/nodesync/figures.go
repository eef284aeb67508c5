package nodesync

import (
	"math"
	"sync"
	"time"

	space "github.com/space-platform/space"
	sandboxv1 "github.com/space-platform/space/api/gen/sandbox/v1"
	"github.com/space-platform/space/internal/control/record"
)

// figures keeps the newest figures of each execution in memory, for as long as its node reports it. They are gone with the process: the node
// tells them again within seconds. The zero value is ready to use.
type figures struct {
	mu   sync.Mutex // guards what follows
	last map[space.Route]sample
}

// sample is the newest figures, and those before them.
type sample struct{ newest, before record.Figures }

// take keeps what a report brings. What a complete report doesn't mention is forgotten, so there are never more than one report has.
func (f *figures) take(r Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := map[space.Route]sample{}
	if !r.Complete {
		next = f.last
	}
	if next == nil {
		next = map[space.Route]sample{}
	}
	for _, e := range r.Executions {
		if e.State != space.ExecutionRunning {
			delete(next, e.Route)
			continue
		}
		s := f.last[e.Route]
		if e.Figures != nil && e.Figures.At.After(s.newest.At) {
			s = sample{newest: *e.Figures, before: s.newest}
		}
		if !s.newest.At.IsZero() {
			next[e.Route] = s
		}
	}
	f.last = next
}

// sent is how many bytes an execution sent between its last two figures, and when it was known; none while there are no two.
func (f *figures) sent(route space.Route) (at time.Time, bytes uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.last[route]
	if s.before.At.IsZero() || s.newest.SentBytes < s.before.SentBytes {
		return time.Time{}, 0
	}
	return s.newest.At, s.newest.SentBytes - s.before.SentBytes
}

// Figures returns the newest figures of an execution and the share of one CPU that it took over the newest interval, in percent; not a
// number before there are two. It's false while there are none.
func (n *Node) Figures(route space.Route) (newest record.Figures, cpuPercent float64, ok bool) {
	n.figures.mu.Lock()
	defer n.figures.mu.Unlock()
	s, ok := n.figures.last[route]
	return s.newest, s.cpuPercent(), ok
}

func (s sample) cpuPercent() float64 {
	interval := s.newest.At.Sub(s.before.At).Seconds()
	if s.before.At.IsZero() || interval <= 0 {
		return math.NaN()
	}
	return max(0, (s.newest.CPUSeconds-s.before.CPUSeconds)/interval*100)
}

// readFigures reads figures off the wire; nil if there are none, or none that could be true.
func readFigures(m *sandboxv1.Usage) *record.Figures {
	seconds := m.GetCpuSeconds()
	if m.GetAt().CheckValid() != nil || math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
		return nil
	}
	return &record.Figures{
		At: m.At.AsTime(), CPUSeconds: seconds, MemoryBytes: m.MemoryBytes, DiskBytes: m.DiskBytes,
		ReceivedBytes: m.ReceivedBytes, SentBytes: m.SentBytes, Guest: readGuestFigures(m.Guest),
	}
}

func readGuestFigures(m *sandboxv1.GuestUsage) *record.GuestFigures {
	if m == nil || math.IsNaN(m.Load) || math.IsInf(m.Load, 0) {
		return nil
	}
	return &record.GuestFigures{
		MemoryTotalBytes: m.MemoryTotalBytes, MemoryUsedBytes: m.MemoryUsedBytes, DiskTotalBytes: m.DiskTotalBytes, DiskUsedBytes: m.DiskUsedBytes,
		Processes: m.Processes, Load: m.Load,
	}
}
