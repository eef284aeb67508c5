// Package promise keeps account of the node's memory. A machine may touch all that it has been given, at any time, and its host must have it then: so memory is given
// away before a machine begins, and taken back when the machine is gone.
package promise

import (
	"sync"

	space "github.com/space-platform/space"
)

const mib = 1 << 20

// Ledger is what has been promised. The zero Ledger promises nothing.
type Ledger struct {
	most int64 // bytes

	mu       sync.Mutex // guards what follows
	machines int64      // bytes that sandboxes' machines have
	builds   int64      // and those of template builds
	shared   map[uint64]*holding
}

// Shared is a memory that machines have together, as long as one of them is there. It may grow to its size: see seal.Memory. The zero one is none.
type Shared struct {
	Inode uint64 `json:"inode"` // of the memfd: the same in each life of the daemon
	Bytes int64  `json:"bytes"`
}

type holding struct {
	bytes   int64
	holders int
}

// New returns a ledger that promises no more than so many bytes.
func New(most int64) *Ledger { return &Ledger{most: most, shared: map[uint64]*holding{}} }

// Promise gives a sandbox's machine so many bytes, or says why it can't: capacity_exhausted. Taking them back may be repeated.
func (l *Ledger) Promise(bytes int64) (takeBack func(), err error) { return l.give(&l.machines, bytes) }

// Keep gives a sandbox's machine what it has been promised by an earlier life, whatever else there is.
func (l *Ledger) Keep(bytes int64) (takeBack func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.take(&l.machines, bytes)
}

// Build is Promise for the machine of a template build.
func (l *Ledger) Build(bytes int64) (takeBack func(), err error) { return l.give(&l.builds, bytes) }

func (l *Ledger) give(whose *int64, bytes int64) (takeBack func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if taken := l.taken(); bytes > l.most-taken {
		return nil, space.Errorf(space.CodeCapacity, "the node's machines, and memory that they share, have %d of the %d MiB that it promises, and %d more are asked for: suspend, stop or delete sandboxes, or ask for less",
			taken/mib, l.most/mib, bytes/mib)
	}
	return l.take(whose, bytes), nil
}

// take notes what is given. mu is held.
func (l *Ledger) take(whose *int64, bytes int64) (takeBack func()) {
	*whose += bytes
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		*whose -= bytes
	})
}

// Share notes that there's a memory for machines to share, if there is room for it.
func (l *Ledger) Share(s Shared) (letGo func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared[s.Inode] == nil && s.Bytes > l.most-l.taken() {
		return nil, false
	}
	return l.hold(s), true
}

// Hold notes that a machine has a shared memory, which counts once however many have it.
func (l *Ledger) Hold(s Shared) (letGo func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hold(s)
}

// hold is Hold. mu is held.
func (l *Ledger) hold(s Shared) (letGo func()) {
	if s == (Shared{}) {
		return func() {}
	}
	h := l.shared[s.Inode]
	if h == nil {
		h = &holding{bytes: s.Bytes}
		l.shared[s.Inode] = h
	}
	h.holders++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.holders--; h.holders == 0 {
			delete(l.shared, s.Inode)
		}
	})
}

// Most is how many bytes the node promises.
func (l *Ledger) Most() int64 { return l.most }

// Beside is how many bytes of them are for other things than sandboxes' own memory: builds, and memory that machines share.
func (l *Ledger) Beside() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beside()
}

// Left is how many bytes could be promised yet.
func (l *Ledger) Left() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.most-l.taken(), 0)
}

// taken and beside need mu.
func (l *Ledger) taken() int64 { return l.machines + l.beside() }

func (l *Ledger) beside() int64 {
	sum := l.builds
	for _, h := range l.shared {
		sum += h.bytes
	}
	return sum
}
