package postgres

import "sync"

// gather has those who ask under the same key at the same time served together: who comes while others are served waits for the next turn, with
// all who come meanwhile. So what is held and waited for once per turn, a lock or a commit, doesn't limit how many are served.
type gather[T any] struct {
	most  int                          // served in one turn
	serve func(key string, asked []*T) // answers each of them; it's called for one turn of a key at a time

	mu      sync.Mutex
	waiting map[string][]*T // a key that is here is being served by a goroutine
}

// ask enters one to be served. It returns at once.
func (g *gather[T]) ask(key string, one *T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting == nil {
		g.waiting = map[string][]*T{}
	}
	asked, busy := g.waiting[key]
	g.waiting[key] = append(asked, one)
	if !busy {
		go g.run(key) // until nobody waits
	}
}

func (g *gather[T]) run(key string) {
	for asked := g.next(key); len(asked) > 0; asked = g.next(key) {
		g.serve(key, asked)
	}
}

// next takes those whose turn it is; none: the goroutine ends.
func (g *gather[T]) next(key string) []*T {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.waiting[key]
	n := min(len(asked), g.most)
	if n == 0 {
		delete(g.waiting, key)
		return nil
	}
	g.waiting[key] = asked[n:]
	return asked[:n]
}
