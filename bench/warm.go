package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/space-platform/space/client"
	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/telemetry"
)

const (
	warmPool  = 4
	fillLimit = time.Minute           // for the pool to be full again
	fillPoll  = 50 * time.Millisecond // between two looks at it
	syncBytes = 4096

	maxMetrics = 8 << 20 // bytes that are read of them
)

// warm measures creations that find the pool full, and what a sync of a small file takes on the same disk in the same rounds.
func (r *run) warm(ctx context.Context) ([]result, error) {
	var create, first, exec, syncs []float64
	for n := range 2 * r.rounds {
		log.Printf("warm round %d of %d", n+1, 2*r.rounds)
		if err := r.awaitPool(ctx); err != nil {
			return nil, err
		}
		ms, err := syncMS(r.inst.RoleDir(instance.Postgres))
		if err != nil {
			return nil, err
		}
		syncs = append(syncs, ms)
		began := time.Now()
		s, err := r.client.CreateSandbox(ctx, client.SandboxCreate{Template: r.template})
		if err != nil {
			return nil, err
		}
		create = append(create, since(began))
		byte1, err := r.firstByte(ctx, s, began)
		if err != nil {
			return nil, err
		}
		first = append(first, byte1)
		plane, err := r.client.Plane(ctx, s.Id)
		if err != nil {
			return nil, err
		}
		for range r.execs {
			began := time.Now()
			if err := echo(ctx, plane); err != nil {
				return nil, err
			}
			exec = append(exec, since(began))
		}
		if err := plane.Close(ctx); err != nil {
			return nil, err
		}
		if err := r.client.DeleteSandbox(ctx, s.Id); err != nil {
			return nil, err
		}
	}
	return []result{
		compare("fsync_ms", syncs, nil),
		compare("create_warm_running_ms", create, nil),
		compare("create_warm_first_byte_ms", first, nil),
		compare("exec_echo_warm_guest_ms", exec, nil),
	}, nil
}

// firstByte runs echo in a new sandbox and returns when its first byte came, in milliseconds from began.
func (r *run) firstByte(ctx context.Context, s client.Sandbox, began time.Time) (float64, error) {
	c, err := r.client.CreateSession(ctx, s.Id, hello)
	if err != nil {
		return 0, err
	}
	ms := 0.0
	for e, err := range r.client.Attach(ctx, c.Session, c.Attachment) {
		if err != nil {
			return 0, err
		}
		if len(e.Data) > 0 && ms == 0 {
			ms = since(began)
		}
	}
	if ms == 0 {
		return 0, fmt.Errorf("echo printed nothing")
	}
	return ms, nil
}

// awaitPool waits until as many machines wait as the pool is to have.
func (r *run) awaitPool(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fillLimit)
	defer cancel()
	for {
		n, err := r.slots(ctx)
		if err != nil {
			return fmt.Errorf("wait for a full pool: %w", err)
		}
		if n >= warmPool {
			return nil
		}
		time.Sleep(fillPoll)
	}
}

// slots is how many machines wait, by spaced-host's metrics.
func (r *run) slots(ctx context.Context) (int, error) {
	port, _ := r.inst.OpsPort(instance.Host)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := telemetry.Sum(io.LimitReader(resp.Body, maxMetrics), "space_host_pool_slots", map[string]string{"state": "waiting"})
	return int(n), err
}

// syncMS writes a small file in a directory and returns how long its sync took.
func syncMS(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "bench-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(filepath.Clean(f.Name()))
	defer f.Close()
	if _, err := f.Write(make([]byte, syncBytes)); err != nil {
		return 0, err
	}
	began := time.Now()
	err = f.Sync()
	return since(began), err
}
