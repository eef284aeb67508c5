// Package uids hands out the uids under which machines run. Each is used by one machine at a time, so that whatever runs under it or
// belongs to it is that machine's.
package uids

import (
	"sync"

	space "github.com/space-platform/space"
)

// Pool hands out uids. It remembers nothing across a restart: what is in use is in the records of its users, who say so with Keep.
type Pool struct {
	first, last int

	mu   sync.Mutex
	used map[int]bool
	next int // where the search begins: a uid that was just given back is used last
}

// New returns a pool of the uids from first to last.
func New(first, last int) *Pool {
	return &Pool{first: first, last: last, used: map[int]bool{}, next: first}
}

// Take returns a uid that nobody has. Its taker gives it back when nothing runs under it and no file belongs to it.
func (p *Pool) Take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.last - p.first + 1
	for i := range n {
		uid := p.first + (p.next-p.first+i)%n
		if !p.used[uid] {
			p.used[uid] = true
			p.next = uid + 1
			return uid, nil
		}
	}
	return 0, space.Errorf(space.CodeCapacity, "all %d uids for machines are in use on this node", n)
}

// Keep says that a record has the uid.
func (p *Pool) Keep(uid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[uid] = true
}

// Give gives a uid back.
func (p *Pool) Give(uid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, uid)
}
