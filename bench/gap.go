package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	gapGoal  = 150             // milliseconds
	gapMiB   = 28              // that a process holds, beside what the machine changes by itself
	gapQuiet = 2 * time.Second // in which a stream is watched that nothing disturbs
)

// talk is a shell's command that counts as fast as it can, and says how far it is some hundred times in a second.
const talk = `i=0; while :; do i=$((i+1)); case $i in *00) echo $i;; esac; done`

// gap measures for how long a client that is attached hears nothing of a session that speaks all the time, while a full snapshot is taken as for a fork, until that is
// durable; without a child, which would take a processor from it. stream_quiet_ms is the same while nothing happens: what others on the machine make of it, and
// stream_pause_ms for how long the sandbox stood still.
func (r *run) gap(ctx context.Context) ([]result, error) {
	if err := r.buildState(ctx); err != nil {
		return nil, err
	}
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: stateTemplate})
	if err != nil {
		return nil, err
	}
	defer r.deleteAll(ctx, []client.Sandbox{s})
	if err := r.fill(ctx, s, gapMiB); err != nil {
		return nil, err
	}
	l, stop, err := r.hear(ctx, s)
	if err != nil {
		return nil, err
	}
	defer stop()
	var quiet, saved []float64
	for n := range r.rounds {
		log.Printf("snapshot %d of %d", n+1, r.rounds)
		silence, err := l.over(func() error { return wait(ctx, gapQuiet) })
		if err != nil {
			return nil, err
		}
		quiet = append(quiet, silence)
		silence, err = l.over(func() error {
			_, err := r.client.CreateSnapshot(ctx, s.Id, client.SnapshotCreate{})
			return err
		})
		if err != nil {
			return nil, err
		}
		saved = append(saved, silence)
	}
	pauses, err := r.pauses(ctx, s, "asked")
	if err != nil {
		return nil, err
	}
	return []result{
		compare("stream_gap_ms", saved, nil).below(gapGoal), compare("stream_quiet_ms", quiet, nil), compare("stream_pause_ms", pauses, nil),
	}, l.failed()
}

// listener hears a session. mu guards what it has heard.
type listener struct {
	mu      sync.Mutex
	last    time.Time     // when it heard something
	longest time.Duration // without hearing anything
	err     error
}

// heard notes that something was said, or that it's looked at, which ends a silence as well.
func (l *listener) heard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.longest, l.last = max(l.longest, now.Sub(l.last)), now
}

func (l *listener) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// over returns the longest silence while f runs, in milliseconds.
func (l *listener) over(f func() error) (float64, error) {
	l.mu.Lock()
	l.longest = 0
	l.mu.Unlock()
	if err := f(); err != nil {
		return 0, err
	}
	l.heard()
	l.mu.Lock()
	defer l.mu.Unlock()
	return round(float64(l.longest.Microseconds()) / 1000), l.err
}

// hear has a session speak in a sandbox until stop is called, and returns when it does.
func (r *run) hear(ctx context.Context, s client.Sandbox) (l *listener, stop func(), err error) {
	c, err := r.client.CreateSession(ctx, s.Id, gen.SessionCreate{Argv: &[]string{"/bin/sh", "-c", talk}})
	if err != nil {
		return nil, nil, err
	}
	l = &listener{last: time.Now()}
	began := make(chan struct{})
	var once sync.Once
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		defer once.Do(func() { close(began) })
		for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
			if err != nil {
				l.end(ctx, err)
				return
			}
			if len(e.Data) > 0 {
				l.heard()
				once.Do(func() { close(began) })
			}
		}
		l.end(ctx, errors.New("it has ended"))
	})
	<-began
	return l, func() { cancel(); all.Wait() }, l.failed()
}

func (l *listener) end(ctx context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.err = fmt.Errorf("hear a session: %w", err)
	}
}
