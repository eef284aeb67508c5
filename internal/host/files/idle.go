package files

import (
	"sync"
	"time"
)

// idle calls a function when nothing has moved for some time.
type idle struct {
	limit time.Duration

	mu    sync.Mutex
	timer *time.Timer
	over  bool
}

func newIdle(limit time.Duration, f func()) *idle {
	return &idle{limit: limit, timer: time.AfterFunc(limit, f)}
}

// moved says that something has.
func (i *idle) moved() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.over {
		i.timer.Reset(i.limit)
	}
}

// pause says that nothing need move until something has.
func (i *idle) pause() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer.Stop()
}

func (i *idle) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = true
	i.timer.Stop()
}
