package nodesync

import (
	"sync"
	"time"
)

const (
	// pressedBelow is the part of a node's memory of which less is available when it's pressed.
	pressedBelow = 10
	// pressureKept is how long what a node said of its memory counts: it calls at least twice as often.
	pressureKept = 2 * MaxHang
)

// pressure is what a node has said last of its memory.
type pressure struct {
	mu        sync.Mutex // guards what follows
	at        time.Time
	memory    uint64
	available uint64 // 0: not said
}

func (p *pressure) take(r Report, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.memory, p.available = now, r.Facts.MemoryBytes, r.Facts.MemoryAvailableBytes
}

func (p *pressure) pressed(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.available > 0 && now.Sub(p.at) < pressureKept && p.available < p.memory/pressedBelow
}

// Pressed reports whether the node has so little memory left that what keeps some without using it should give it back.
func (n *Node) Pressed() bool { return n.pressure.pressed(time.Now()) }
