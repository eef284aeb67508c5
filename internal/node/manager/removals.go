package manager

import "sync"

// removals notes that executions are removed. Those that are removed while others are noted share the next writing, so that it's not a disk that
// says how many are removed in a second.
type removals struct {
	write func(ids []string) error

	writing sync.Mutex // held by who writes
	mu      sync.Mutex // guards next
	next    *removal
}

// removal is what is written together.
type removal struct {
	ids  []string
	once sync.Once
	err  error
}

// note returns when the removal of an execution is written.
func (r *removals) note(id string) error {
	r.mu.Lock()
	if r.next == nil {
		r.next = new(removal)
	}
	mine := r.next
	mine.ids = append(mine.ids, id)
	r.mu.Unlock()
	r.writing.Lock()
	defer r.writing.Unlock()
	mine.once.Do(func() { // the first of them to come here writes for all
		r.mu.Lock()
		if r.next == mine {
			r.next = nil
		}
		r.mu.Unlock()
		mine.err = r.write(mine.ids)
	})
	return mine.err
}
