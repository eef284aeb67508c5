package template

import (
	"context"
	"slices"
	"sync"
)

// The limits of builds that are at work at the same time; others wait.
const (
	maxBuilds        = 3
	maxProjectBuilds = maxBuilds - 1 // of one project, so that it never holds up all others
	memoryShare      = 8             // of the node's memory, an eighth stays free of builds beside the first
)

// turns decides whose turn it is.
type turns struct {
	fits    func(memory int64) bool                         // whether machines with so much memory fit beside what runs
	promise func(memory int64) (takeBack func(), err error) // gives a machine its memory; a *space.Error says why that can't be

	mu      sync.Mutex // guards what follows
	working []*job
	waiting []*job // longest first
}

// take waits for a job's turn. When it returns nil the caller calls give. An error that isn't the context's is a *space.Error: the job's machine can't have its memory, and no
// other job's end will change that.
func (t *turns) take(ctx context.Context, j *job) error {
	t.mu.Lock()
	t.waiting = append(t.waiting, j)
	t.next()
	t.mu.Unlock()
	select {
	case <-j.turn:
		return j.refused
	case <-ctx.Done():
		t.give(j)
		return context.Cause(ctx)
	}
}

// give ends a job's turn, or its wait for one.
func (t *turns) give(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func(o *job) bool { return o == j }
	t.working, t.waiting = slices.DeleteFunc(t.working, is), slices.DeleteFunc(t.waiting, is)
	j.machineGone()
	t.next()
}

// next lets those begin whose turn it is. mu is held.
func (t *turns) next() {
	for j := choose(t.working, t.waiting); j != nil; j = choose(t.working, t.waiting) {
		needed := j.memory
		for _, o := range t.working {
			needed += o.memory // which it may not have taken yet
		}
		if len(t.working) > 0 && !t.fits(needed) {
			return // nobody smaller passes it: it's next when another one has ended
		}
		j.takeBack, j.refused = t.promise(j.memory)
		if len(t.working) > 0 && j.refused != nil {
			return // as well
		}
		t.waiting = slices.DeleteFunc(t.waiting, func(o *job) bool { return o == j })
		if j.refused == nil {
			t.working = append(t.working, j)
		}
		close(j.turn)
	}
}

// choose returns whose turn it is next, nil for none: of those whose template nobody is at, the one whose project has the fewest at work, and among
// those the one that has waited longest.
func choose(working, waiting []*job) *job {
	if len(working) >= maxBuilds {
		return nil
	}
	templates, projects := map[string]bool{}, map[string]int{}
	for _, j := range working {
		templates[j.template] = true
		projects[j.project]++
	}
	var best *job
	for _, j := range waiting {
		n := projects[j.project]
		if !templates[j.template] && n < maxProjectBuilds && (best == nil || n < projects[best.project]) {
			best = j
		}
	}
	return best
}
