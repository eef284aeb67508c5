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

// launchSizes are how many sandboxes are created at once.
var launchSizes = []int{1, 10, 50}

// launches creates many sandboxes at once, without a pool, and as many bare ones right before.
func (r *run) launches(ctx context.Context) ([]result, error) {
	var out []result
	for _, n := range launchSizes {
		log.Printf("%d at once", n)
		bare, err := r.byHand(ctx, "-parallel", fmt.Sprint(n))
		if err != nil {
			return nil, err
		}
		ours, err := r.launch(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("%d at once: %w", n, err)
		}
		x := compare(fmt.Sprintf("launch_%d", n), ours.Create, bare.Create)
		x.perSecond(n, ours.Wall[0], bare.Wall[0])
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
