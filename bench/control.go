package main

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/space-platform/space/client"
)

// How the control plane is loaded.
const (
	controlClients = 32
	controlWarmUp  = 3 * time.Second
	controlTime    = 15 * time.Second
	controlGoal    = 300 // pairs in a second
)

// control measures create and delete pairs on machines that cost nothing, and the processor time that all daemons and PostgreSQL take for one.
func (r *run) control(ctx context.Context) ([]result, error) {
	log.Printf("%d clients create and delete for %s", controlClients, controlTime)
	p := r.load
	if _, err := p.pairs(ctx, controlWarmUp); err != nil {
		return nil, err
	}
	before, err := p.processorTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	took, err := p.pairs(ctx, controlTime)
	if err != nil {
		return nil, err
	}
	over := time.Since(began)
	after, err := p.processorTime()
	if err != nil {
		return nil, err
	}
	perS := float64(len(took)) / over.Seconds()
	out := []result{rate("control_pairs_per_s", perS, controlGoal), compare("control_pair_ms", took, nil)}
	total := 0.0
	for _, role := range after.roles() {
		ms := (after[role] - before[role]).Seconds() * 1000 / float64(len(took))
		total += ms
		log.Printf("processor time for a pair in %s: %.2f ms", role, ms)
	}
	return append(out, compare("control_pair_cpu_ms", []float64{round(total)}, nil)), nil
}

// pairs has all clients create and delete sandboxes for a while, and returns the milliseconds of each pair.
func (p *platform) pairs(ctx context.Context, d time.Duration) ([]float64, error) {
	var mu sync.Mutex
	var took []float64
	until := time.Now().Add(d)
	g, ctx := errgroup.WithContext(ctx)
	for range controlClients {
		g.Go(func() error {
			for time.Now().Before(until) {
				began := time.Now()
				if err := p.pair(ctx); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, since(began))
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("create and delete sandboxes: %w", err)
	}
	return took, nil
}

func (p *platform) pair(ctx context.Context) error {
	s, err := p.client.CreateSandbox(ctx, client.SandboxCreate{Template: p.template})
	if err != nil {
		return err
	}
	return p.client.DeleteSandbox(ctx, s.Id)
}
