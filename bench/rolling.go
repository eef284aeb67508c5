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
	rollingEvery = 60               // seconds between two snapshots, the least that is possible
	rollingCount = 2                // snapshots that are measured
	rollingMiB   = 28               // that a process holds, beside what the machine changes by itself
	rollingGoal  = 5                // percent of the sandbox's processor
	rollingRest  = 4 * time.Second  // after a snapshot, before what is between two is measured
	rollingQuiet = 24 * time.Second // of what is between two
	rollingLate  = 20 * time.Second // for a snapshot to be ready after it's due
	rollingPoll  = 500 * time.Millisecond
)

// work is a shell's command that counts as fast as it can, and tells how far it is every now and then.
const work = `i=0; while :; do i=$((i+1)); case $i in *0000) echo $i;; esac; done`

// rolling measures how much less a busy sandbox gets done since it takes a full snapshot of itself every minute: in each minute a time without one is compared with the
// time after it, in which there's one. What the sandbox loses by the clock is one figure; on a busy machine it's others' doing as well, so the other one is what its
// machine uses more of the processor for the same work, and the time in which it stood still.
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
	every := rollingEvery
	if _, err := r.client.UpdateSandbox(ctx, s.Id, client.SandboxUpdate{Lifecycle: &client.Lifecycle{Rolling: &client.Rolling{FullEverySeconds: &every}}}); err != nil {
		return nil, err
	}
	if err := r.awaitRolling(ctx, s, 1); err != nil {
		return nil, err
	}
	before, err := r.processorTime()
	if err != nil {
		return nil, err
	}
	var clock, processor []float64
	for n := range rollingCount {
		quiet, busy, err := r.minute(ctx, s, w, n+2)
		if err != nil {
			return nil, err
		}
		clock = append(clock, 100*quiet.more(busy, pace.seconds)/rollingEvery)
		processor = append(processor, 100*quiet.more(busy, pace.processor)/rollingEvery)
	}
	after, err := r.processorTime()
	if err != nil {
		return nil, err
	}
	pauses, err := r.pauses(ctx, s, "rolling")
	if err != nil {
		return nil, err
	}
	for n := range processor {
		processor[n] = round(processor[n] + 100*pauses[n+1]/1000/rollingEvery)
		clock[n] = round(clock[n])
	}
	host := string(instance.Host)
	percent := func(name string, samples []float64) result {
		x := compare(name, samples, nil).below(rollingGoal)
		x.Unit = "%"
		return x
	}
	return []result{
		percent("rolling_overhead", processor), percent("rolling_overhead_clock", clock), compare("rolling_pause_ms", pauses, nil).below(pauseGoal),
		compare("rolling_host_cpu_ms", []float64{float64((after[host] - before[host]).Milliseconds()) / rollingCount}, nil),
	}, w.failed()
}

// minute is how much is done between two snapshots, and then from there until the second of them, the nth, is over.
func (r *run) minute(ctx context.Context, s client.Sandbox, w *worker, n int) (quiet, busy pace, err error) {
	if err := wait(ctx, rollingRest); err != nil {
		return quiet, busy, err
	}
	if quiet, err = r.over(w, func() error { return wait(ctx, rollingQuiet) }); err != nil {
		return quiet, busy, err
	}
	busy, err = r.over(w, func() error {
		if err := r.awaitRolling(ctx, s, n); err != nil {
			return err
		}
		return wait(ctx, rollingRest)
	})
	return quiet, busy, err
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

// pace is how much was done in a time, by the clock and of the machines' processor time.
type pace struct {
	done      int
	took, cpu time.Duration
}

func (p pace) seconds() float64   { return p.took.Seconds() }
func (p pace) processor() float64 { return p.cpu.Seconds() }

// more is how many seconds, of whatever kind, another pace took more for what it has done.
func (p pace) more(other pace, seconds func(pace) float64) float64 {
	return seconds(other) - float64(other.done)*seconds(p)/float64(p.done)
}

// over returns what a worker does while f runs.
func (r *run) over(w *worker, f func() error) (p pace, err error) {
	done, at := w.now()
	cpu, err := r.machineTime()
	if err != nil {
		return p, err
	}
	if err := f(); err != nil {
		return p, err
	}
	d, t := w.now()
	c, err := r.machineTime()
	if err == nil && d == done {
		err = errors.New("the worker has done nothing")
	}
	return pace{done: d - done, took: t.Sub(at), cpu: c - cpu}, err
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
