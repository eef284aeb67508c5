package execution

import (
	"slices"
	"time"
)

// PoolConfig says how many machines wait for executions.
type PoolConfig struct {
	Auto        bool  // as many as recent demand says, within MemoryBytes; else Size
	Size        int   // per template and shape; 0: none
	MemoryBytes int64 // that all slots may take; with Auto only
}

// The limits of a pool.
const (
	maxSlots        = 64               // on one node
	maxSlotsOfAKind = 16               // with Auto
	demandAge       = time.Hour        // for how long a shape that was asked for has slots
	burstAge        = 10 * time.Minute // for how long a burst of creations counts
	burstSpan       = 10 * time.Second // the creations within it are a burst
	maxArrivals     = 64               // remembered of one kind: more than it can have slots
	firstSlotBytes  = 64 << 20         // a slot is taken to need, before one was measured
)

// wish is what is known about one kind of machine when slots are allotted.
type wish struct {
	own   bool      // it's the template's own shape: it may have a slot before anybody asks
	burst int       // the most creations of late within burstSpan
	last  time.Time // when one was asked for; zero for never
	cost  int64     // bytes that one slot takes
}

// want is how many slots a kind would have if there were room for all.
func (c PoolConfig) want(w wish, now time.Time) int {
	switch {
	case !w.own && now.Sub(w.last) > demandAge:
		return 0
	case !c.Auto:
		return c.Size
	default:
		return min(max(w.burst, 1), maxSlotsOfAKind)
	}
}

// allot decides how many slots each kind has. room is how many bytes all of them may take. Kinds that were asked for last come first; each
// gets one before any gets another.
func allot(c PoolConfig, wishes []wish, room int64, now time.Time) []int {
	if c.Auto {
		room = min(room, c.MemoryBytes)
	}
	order := make([]int, len(wishes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return wishes[b].last.Compare(wishes[a].last) })
	out, total := make([]int, len(wishes)), 0
	for more := true; more; {
		more = false
		for _, i := range order {
			w := wishes[i]
			if out[i] >= c.want(w, now) || total == maxSlots || w.cost > room {
				continue
			}
			out[i], total, room, more = out[i]+1, total+1, room-w.cost, true
		}
	}
	return out
}

// arrivals are the times of the creations of one kind, oldest first.
type arrivals []time.Time

// add notes one more, and forgets those that are too old to count.
func (a arrivals) add(now time.Time) arrivals {
	a = append(a, now)
	return slices.Clone(a[max(0, len(a)-maxArrivals):])
}

// burst is the largest number of creations within burstSpan, in the last burstAge.
func (a arrivals) burst(now time.Time) int {
	most, first := 0, 0
	for i, t := range a {
		for t.Sub(a[first]) > burstSpan {
			first++
		}
		if now.Sub(t) <= burstAge {
			most = max(most, i-first+1)
		}
	}
	return most
}

// last is the newest; zero if there is none.
func (a arrivals) last() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[len(a)-1]
}
