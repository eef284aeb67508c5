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

// launchSizes are how many sandboxes are created at once, and launchRounds how often: the figure is the median of the rounds, in turns with bare.
var (
	launchSizes  = []int{1, 10, 50}
	launchRounds = map[int]int{1: 9, 10: 3, 50: 1}
)

// launches creates many sandboxes at once, without a pool, and as many bare ones right before each time.
func (r *run) launches(ctx context.Context) ([]result, error) {
	var out []result
	for _, n := range launchSizes {
		var ours, bare lives
		for range launchRounds[n] {
			log.Printf("%d at once", n)
			b, err := r.byHand(ctx, "-parallel", fmt.Sprint(n))
			if err != nil {
				return nil, err
			}
			o, err := r.launch(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("%d at once: %w", n, err)
			}
			bare.add(b)
			ours.add(o)
		}
		x := compare(fmt.Sprintf("launch_%d", n), ours.Create, bare.Create)
		x.perSecond(n, percentile(ours.Wall, 50), percentile(bare.Wall, 50))
		out = append(out, x)
	}
	return out, nil
}

// launch creates n sandboxes at once, and deletes them.
func (r *run) launch(ctx context.Context, n int) (lives, error) {
	var l lives
	var mu sync.Mutex
	var ids []string
	g, gctx := errgroup.WithContext(ctx)
	began := time.Now()
	for range n {
		g.Go(func() error {
			s, err := r.client.CreateSandbox(gctx, client.SandboxCreate{Template: r.template})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			l.Create, ids = append(l.Create, since(began)), append(ids, s.Id)
			return nil
		})
	}
	err := g.Wait()
	l.Wall = []float64{since(began)}
	for _, id := range ids {
		if derr := r.client.DeleteSandbox(ctx, id); derr != nil && err == nil {
			err = derr
		}
	}
	return l, err
}
