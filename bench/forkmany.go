package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/space-platform/space/client"
)

const (
	forks      = 50 // of one sandbox, at once
	forkGoalMB = 45 // of memory that each takes
)

// forkMany forks one sandbox many times at once, which all must succeed, and starts as many machines by hand at once right before. What the children take of memory
// is measured when all run.
func (r *run) forkMany(ctx context.Context) ([]result, error) {
	if err := r.buildState(ctx); err != nil {
		return nil, err
	}
	log.Printf("%d forks at once", forks)
	bare, err := r.byHandFrom(ctx, stateTemplate, "-parallel", fmt.Sprint(forks))
	if err != nil {
		return nil, err
	}
	s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: stateTemplate})
	if err != nil {
		return nil, err
	}
	defer r.deleteAll(ctx, []client.Sandbox{s})
	if err := r.echo(ctx, s); err != nil {
		return nil, err
	}
	before, err := r.pss()
	if err != nil {
		return nil, err
	}
	n, began := forks, time.Now()
	children, err := r.client.ForkSandbox(ctx, s.Id, client.SandboxFork{Count: &n})
	took := since(began)
	defer r.deleteAll(ctx, children)
	if err == nil && len(children) != forks {
		err = fmt.Errorf("%d of %d forks are there", len(children), forks)
	}
	if err != nil {
		return nil, err
	}
	after, err := r.pss()
	if err != nil {
		return nil, err
	}
	wall := compare(fmt.Sprintf("fork%d_ms", forks), []float64{took}, bare.Wall)
	wall.perSecond(forks, took, bare.Wall[0])
	memory := compare(fmt.Sprintf("fork%d_mb", forks), []float64{round(float64(after.machines-before.machines) / forks / (1 << 20))}, nil)
	memory.Unit = "MiB"
	return []result{wall, memory.below(forkGoalMB)}, nil
}
