package execution

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/space-platform/space/internal/host/machine"
	"github.com/space-platform/space/internal/host/rootfs"
	"github.com/space-platform/space/internal/host/template"
)

// How the pool's owner works.
const (
	poolInterval = 2 * time.Second       // between two looks, when nobody calls
	quietTime    = 20 * time.Millisecond // without a creation, before a slot is made
	longestQuiet = 2 * time.Second       // that is waited for such a time
	fillBackOff  = 30 * time.Second      // after a slot of a kind could not be made
	emptyTimeout = 20 * time.Second      // to remove all slots when the daemon stops; the next one removes the rest
	memoryShare  = 8                     // of the node's memory, an eighth stays free of slots
)

// kind is what the machines of a slot's sort have in common.
type kind struct {
	template string
	size     rootfs.Size
}

// pool keeps slots: restored, warm and paused machines. Its owner makes one at a time, when no creation is under way, so that running work
// doesn't feel it.
type pool struct {
	table *Table
	cfg   PoolConfig
	wake  chan struct{}

	mu        sync.Mutex // guards what follows
	slots     map[kind][]*slot
	arrivals  map[kind]arrivals
	failed    map[kind]time.Time
	cost      map[kind]int64 // of the newest slot, in bytes
	discarded []*slot        // to be removed
	making    int            // slots that the owner makes
	removing  int            // and removes
	creating  int
	calm      time.Time // when the last creation ended
}

func newPool(t *Table) *pool {
	return &pool{
		table: t, cfg: t.cfg.Pool, wake: make(chan struct{}, 1),
		slots: map[kind][]*slot{}, arrivals: map[kind]arrivals{}, failed: map[kind]time.Time{}, cost: map[kind]int64{},
	}
}

// take returns a slot of the origin's snapshot; nil if there is none. It's the taker's then.
func (p *pool) take(template string, o origin) *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := kind{template, o.size}
	for len(p.slots[k]) > 0 {
		s := p.slots[k][0]
		p.slots[k] = p.slots[k][1:]
		if s.state == o.snapshot.State && !machine.Gone(s.machine) {
			claims.WithLabelValues("hit").Inc()
			return s
		}
		p.discarded = append(p.discarded, s)
	}
	claims.WithLabelValues("miss").Inc()
	return nil
}

// discard leaves a slot to the owner, to be removed.
func (p *pool) discard(s *slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.discarded = append(p.discarded, s)
	p.call()
}

// call wakes the owner.
func (p *pool) call() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// arrived notes that a machine is wanted, and left that it's there or won't be: no slot is made in between. A slot can't have a sandbox's old disk.
func (p *pool) arrived(r record, size rootfs.Size) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.creating++
	if r.DiskOf == "" && r.Snapshot == "" {
		k := kind{r.Template, size}
		p.arrivals[k] = p.arrivals[k].add(time.Now())
	}
}

func (p *pool) left() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.creating--
	p.calm = time.Now()
	p.call()
}

// keep is the owner: it keeps as many slots as are wanted until ctx ends, and removes them then.
func (p *pool) keep(ctx context.Context) {
	defer p.empty()
	for ctx.Err() == nil {
		short := p.plan(p.table.cfg.Templates.Loadable(), time.Now())
		p.clear(ctx)
		if len(short) == 0 || !p.awaitQuiet(ctx) {
			p.rest(ctx)
			continue
		}
		p.fill(ctx, short[0])
	}
}

// rest waits until there may be something to do.
func (p *pool) rest(ctx context.Context) {
	t := time.NewTimer(poolInterval)
	defer t.Stop()
	select {
	case <-p.wake:
	case <-t.C:
	case <-ctx.Done():
	}
}

// plan discards what is too much, and returns the kinds that have too few slots, those that are wanted most first.
func (p *pool) plan(all []template.Loadable, now time.Time) (short []kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kinds, wishes := p.wishes(all, now)
	allotted := allot(p.cfg, wishes, p.room(), now)
	for i, k := range kinds {
		for len(p.slots[k]) > allotted[i] {
			p.discardOldest(k)
		}
		if len(p.slots[k]) < allotted[i] && now.Sub(p.failed[k]) > fillBackOff {
			short = append(short, k)
		}
	}
	slices.SortStableFunc(short, func(a, b kind) int { return cmp.Compare(len(p.slots[a]), len(p.slots[b])) })
	return short
}

// wishes returns what is known of each kind that can be loaded, those asked for last first. Slots and demand of other kinds go. mu is held.
func (p *pool) wishes(all []template.Loadable, now time.Time) ([]kind, []wish) {
	states := map[kind]string{}
	var kinds []kind
	var wishes []wish
	for _, l := range all {
		k := kind{l.Template, l.Size}
		states[k] = l.State
		a := p.arrivals[k]
		kinds = append(kinds, k)
		wishes = append(wishes, wish{own: l.Own, burst: a.burst(now), last: a.last(), cost: cmp.Or(p.cost[k], firstSlotBytes)})
	}
	for k, have := range p.slots {
		p.slots[k] = slices.DeleteFunc(have, func(s *slot) bool {
			useless := s.state != states[k] || machine.Gone(s.machine)
			if useless {
				p.discarded = append(p.discarded, s)
			}
			return useless
		})
	}
	gone := func(k kind) bool { return states[k] == "" }
	maps.DeleteFunc(p.slots, func(k kind, have []*slot) bool { return gone(k) && len(have) == 0 })
	maps.DeleteFunc(p.failed, func(k kind, _ time.Time) bool { return gone(k) })
	maps.DeleteFunc(p.cost, func(k kind, _ int64) bool { return gone(k) })
	maps.DeleteFunc(p.arrivals, func(_ kind, a arrivals) bool { return now.Sub(a.last()) > demandAge })
	return kinds, wishes
}

// discardOldest discards the slot of a kind that would be taken next. mu is held.
func (p *pool) discardOldest(k kind) {
	p.discarded = append(p.discarded, p.slots[k][0])
	p.slots[k] = p.slots[k][1:]
}

// room is how many bytes slots may take: what they take, and what the node has to spare and hasn't promised. mu is held.
func (p *pool) room() int64 {
	f, err := p.table.cfg.Memory()
	if err != nil {
		slog.Error("the pool gets no more machines", "err", err)
		return 0
	}
	room := min(f.Available-f.Total/memoryShare, p.table.cfg.Promises.Left())
	for _, have := range p.slots {
		for _, s := range have {
			room += s.bytes
		}
	}
	return max(room, 0)
}

// clear removes what was discarded. What can't be removed stays for the next time.
func (p *pool) clear(ctx context.Context) {
	p.mu.Lock()
	gone := p.discarded
	p.discarded, p.removing = nil, len(gone)
	p.mu.Unlock()
	for _, s := range gone {
		err := s.remove(ctx)
		p.mu.Lock()
		p.removing--
		if err != nil {
			s.log.Error("a machine of the pool can't be removed; will try again", "err", err)
			p.discarded = append(p.discarded, s)
		}
		p.mu.Unlock()
	}
}

// awaitQuiet waits for a moment without a creation. It reports false when ctx has ended.
func (p *pool) awaitQuiet(ctx context.Context) bool {
	limit := time.Now().Add(longestQuiet)
	for ctx.Err() == nil && time.Now().Before(limit) {
		p.mu.Lock()
		quiet := p.creating == 0 && time.Since(p.calm) >= quietTime
		p.mu.Unlock()
		if quiet {
			return true
		}
		pause(ctx, quietTime)
	}
	return ctx.Err() == nil
}

// fill makes one slot.
func (p *pool) fill(ctx context.Context, k kind) {
	s := p.table.newSlot(k)
	began := time.Now()
	p.mu.Lock()
	p.making++
	p.mu.Unlock()
	err := s.fill(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.making--
	if err != nil {
		p.discarded = append(p.discarded, s)
		p.failed[k] = time.Now()
		if ctx.Err() == nil {
			s.log.Warn("a machine for the pool could not be made", "template", k.template, "err", err)
		}
		return
	}
	p.slots[k] = append(p.slots[k], s)
	p.cost[k] = cmp.Or(s.bytes, firstSlotBytes)
	stepDuration.WithLabelValues("fill").Observe(time.Since(began).Seconds())
	s.log.Info("a machine waits in the pool", "template", k.template, "took", time.Since(began), "bytes", s.bytes)
}

// empty removes all slots.
func (p *pool) empty() {
	p.mu.Lock()
	for k, have := range p.slots {
		p.discarded = append(p.discarded, have...)
		delete(p.slots, k)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), emptyTimeout)
	defer cancel()
	p.clear(ctx)
}

// counts returns how many slots there are, by what they're at: all machines that belong to nobody.
func (p *pool) counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{"waiting": 0, "making": p.making, "removing": len(p.discarded) + p.removing}
	for _, have := range p.slots {
		out["waiting"] += len(have)
	}
	return out
}
