package access

import (
	"context"
	"sync"

	"github.com/space-platform/space/internal/control/wake"
)

// maxWaits bounds how many requests of one project wait at once for sandboxes to run. Each holds a place of the edge's meanwhile, of which all projects
// together have a thousand or two. One more is told to try again, as if its time were over.
const maxWaits = 128

// Waits counts who waits for sandboxes, by project. The zero value is ready to use, by any number of goroutines.
type Waits struct {
	mu sync.Mutex
	by map[string]int // of those that have any
}

// Wait is one request's wait, as often as it waits. It must be ended.
type Wait struct {
	of      *Waits
	project string
	counted bool
}

// Of returns the wait of a request of a project. It's counted once it begins.
func (w *Waits) Of(project string) *Wait { return &Wait{of: w, project: project} }

// Next waits for something new of what is watched. It reports whether there is: not if ctx is over, or too many of the project wait.
func (w *Wait) Next(ctx context.Context, news *wake.Watch) bool {
	return w.begin() && news.Next(ctx)
}

func (w *Wait) begin() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if w.counted {
		return true
	}
	if w.of.by[w.project] >= maxWaits {
		return false
	}
	if w.of.by == nil {
		w.of.by = map[string]int{}
	}
	w.of.by[w.project]++
	w.counted = true
	return true
}

// End gives its place back.
func (w *Wait) End() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	if !w.counted {
		return
	}
	w.counted = false
	if w.of.by[w.project]--; w.of.by[w.project] == 0 {
		delete(w.of.by, w.project)
	}
}
