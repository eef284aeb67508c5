package postgres

import (
	"runtime"
	"sync"
	"time"
)

// gather has those who ask under the same key at the same time served together: who comes while others are served waits for the next turn, with
// all who come meanwhile. So what is held and waited for once per turn, a lock or a commit, doesn't limit how many are served.
type gather[T any] struct {
	most  int                          // served in one turn
	pace  time.Duration                // between two turns of a key while several ask: the more there are in a turn, the less each of them costs
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
	for {
		runtime.Gosched() // to those who are about to ask as well
		asked := g.next(key)
		if len(asked) == 0 {
			return
		}
		began := time.Now()
		g.serve(key, asked)
		if len(asked) > 1 || g.awaited(key) {
			time.Sleep(g.pace - time.Since(began))
		}
	}
}

// awaited reports whether somebody came while others were served.
func (g *gather[T]) awaited(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting[key]) > 0
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
