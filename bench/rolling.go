package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
)

const (
	rollingEvery  = 60 // seconds between two snapshots, the least that is possible
	rollingCount  = 2  // snapshots in what is measured
	rollingMiB    = 28 // that a process holds, beside what the machine changes by itself
	rollingGoal   = 5  // percent of the sandbox's processor
	rollingQuiet  = 30 * time.Second
	rollingWarmUp = 5 * time.Second
	rollingLate   = 20 * time.Second // for a snapshot to be ready after it's due
	rollingPoll   = 500 * time.Millisecond
)

// work is a shell's command that counts as fast as it can, and tells how far it is every now and then.
const work = `i=0; while :; do i=$((i+1)); case $i in *0000) echo $i;; esac; done`

// rolling measures how much less a busy sandbox gets done while it takes a full snapshot of itself every minute: before that, then from the end of one snapshot to
// the end of a later one, then after it.
func (r *run) rolling(ctx context.Context) ([]result, error) {
	if err := r.buildState(ctx); err != nil {
		return nil, err
	}
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: stateTemplate})
	if err != nil {
		return nil, err
	}
	defer r.deleteAll(ctx, []client.Sandbox{s})
	if err := r.fill(ctx, s, rollingMiB); err != nil {
		return nil, err
	}
	w, stop, err := r.work(ctx, s)
	if err != nil {
		return nil, err
	}
	defer stop()
	log.Printf("%d snapshots, one every %d s", rollingCount, rollingEvery)
	if err := wait(ctx, rollingWarmUp); err != nil {
		return nil, err
	}
	var quiet pace
	if err := quiet.over(func() error { return wait(ctx, rollingQuiet) }, w); err != nil {
		return nil, err
	}
	busy, host, err := r.roll(ctx, s, w)
	if err != nil {
		return nil, err
	}
	if err := quiet.over(func() error { return wait(ctx, rollingQuiet) }, w); err != nil {
		return nil, err
	}
	pauses, err := r.pauses(ctx, s, "rolling")
	if err != nil {
		return nil, err
	}
	lost := compare("rolling_overhead", []float64{round(100 * (1 - busy.rate()/quiet.rate()))}, nil).below(rollingGoal)
	lost.Unit = "%"
	return []result{lost, compare("rolling_pause_ms", pauses, nil).below(pauseGoal), compare("rolling_host_cpu_ms", []float64{host}, nil)}, w.failed()
}

// roll has a sandbox take snapshots of itself, and returns how much it gets done from the end of the first, and what a snapshot takes of spaced-host's
// processor time, in milliseconds.
func (r *run) roll(ctx context.Context, s client.Sandbox, w *worker) (p pace, hostMS float64, err error) {
	every := rollingEvery
	if _, err := r.client.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifecycle: &client.Lifecycle{Rolling: &client.Rolling{FullEverySeconds: &every}}}); err != nil {
		return p, 0, err
	}
	if err := r.awaitRolling(ctx, s, 1); err != nil {
		return p, 0, err
	}
	before, err := r.processorTime()
	if err != nil {
		return p, 0, err
	}
	if err := p.over(func() error { return r.awaitRolling(ctx, s, 1+rollingCount) }, w); err != nil {
		return p, 0, err
	}
	after, err := r.processorTime()
	if err != nil {
		return p, 0, err
	}
	host := string(instance.Host)
	hostMS = float64((after[host] - before[host]).Milliseconds()) / rollingCount
	_, err = r.client.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifecycle: &client.Lifecycle{Rolling: &client.Rolling{}}})
	return p, hostMS, err
}

// awaitRolling waits until so many snapshots are ready that a sandbox took of itself.
func (r *run) awaitRolling(ctx context.Context, s client.Sandbox, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*rollingEvery*time.Second+rollingLate)
	defer cancel()
	for {
		ready := 0
		for x, err := range r.client.ListSnapshots(ctx, s.Id) {
			if err != nil {
				return fmt.Errorf("wait for snapshot %d of %s: %w", n, s.Id, err)
			}
			if x.Purpose == "rolling" && x.State == "ready" {
				ready++
			}
		}
		if ready >= n {
			return nil
		}
		if err := wait(ctx, rollingPoll); err != nil {
			return err
		}
	}
}

// pace is how much was done in a time.
type pace struct {
	done int
	took time.Duration
}

func (p pace) rate() float64 { return float64(p.done) / p.took.Seconds() }

// over adds what a worker does while f runs.
func (p *pace) over(f func() error, w *worker) error {
	done, at := w.now()
	if err := f(); err != nil {
		return err
	}
	d, t := w.now()
	p.done, p.took = p.done+d-done, p.took+t.Sub(at)
	return nil
}

// worker is a command that counts. mu guards what it has told.
type worker struct {
	mu   sync.Mutex
	done int
	at   time.Time
	err  error
}

// now is how far it had come when it said so last.
func (w *worker) now() (int, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done, w.at
}

func (w *worker) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// work has a sandbox count until stop is called.
func (r *run) work(ctx context.Context, s client.Sandbox) (w *worker, stop func(), err error) {
	c, err := r.client.CreateSession(ctx, s.Id, client.SessionCreate{Argv: &[]string{"/bin/sh", "-c", work}})
	if err != nil {
		return nil, nil, err
	}
	w = &worker{at: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		err := r.listen(ctx, c, w)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err = err; ctx.Err() != nil {
			w.err = nil
		}
	})
	return w, func() { cancel(); all.Wait() }, nil
}

// listen takes in what a worker tells.
func (r *run) listen(ctx context.Context, c client.SessionCreated, w *worker) error {
	rest := ""
	for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
		if err != nil {
			return err
		}
		said := rest + string(e.Data)
		last := strings.LastIndexByte(said, '\n')
		if last < 0 {
			rest = said
			continue
		}
		lines := strings.Split(said[:last], "\n")
		rest = said[last+1:]
		n, err := strconv.Atoi(lines[len(lines)-1])
		if err != nil {
			return fmt.Errorf("the worker says %q", said)
		}
		w.mu.Lock()
		w.done, w.at = n, time.Now()
		w.mu.Unlock()
	}
	return errors.New("the worker has ended")
}

// wait waits for a time, unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
