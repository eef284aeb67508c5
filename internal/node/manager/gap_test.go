package manager

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	controlv1 "github.com/space-platform/space/api/gen/control/v1"
)

// patientControl hangs until a call is overtaken or over, and notes when each came.
type patientControl struct {
	mu    sync.Mutex
	began []time.Time
	next  chan struct{} // closed when another call comes
}

func (c *patientControl) Synchronize(ctx context.Context, _ *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	c.mu.Lock()
	if c.next != nil {
		close(c.next)
	}
	mine := make(chan struct{})
	c.next, c.began = mine, append(c.began, time.Now())
	c.mu.Unlock()
	select {
	case <-mine:
		return connect.NewResponse(&controlv1.SynchronizeResponse{}), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// passingControl takes the first two calls for each other: the second is overtaken, and the first hangs on.
type passingControl struct{ patientControl }

func (c *passingControl) Synchronize(ctx context.Context, r *connect.Request[controlv1.SynchronizeRequest]) (*connect.Response[controlv1.SynchronizeResponse], error) {
	c.mu.Lock()
	n := len(c.began)
	if n < 2 {
		c.began = append(c.began, time.Now())
	}
	c.mu.Unlock()
	switch n {
	case 0:
		<-ctx.Done()
		return nil, ctx.Err()
	case 1:
		return connect.NewResponse(&controlv1.SynchronizeResponse{}), nil
	}
	return c.patientControl.Synchronize(ctx, r)
}

// TestCallsThatPassEachOther on their way to the control plane hold up no report after them.
func TestCallsThatPassEachOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	synctest.Test(t, func(t *testing.T) {
		table, err := openTable(path, "node")
		if err != nil {
			t.Fatal(err)
		}
		control := new(passingControl)
		m := &Manager{table: table, control: control, timing: usualTiming}
		ctx, cancel := context.WithCancel(t.Context())
		var talk sync.WaitGroup
		talk.Go(func() { m.synchronize(ctx) })
		time.Sleep(time.Second)
		table.mu.Lock()
		table.announce()
		table.mu.Unlock()
		told := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		control.mu.Lock()
		if n := len(control.began); n != 3 || control.began[2].Sub(told) > 2*passedTime {
			t.Errorf("%d calls came, the last one at %v after the change", n, control.began[n-1].Sub(told))
		}
		control.mu.Unlock()
		cancel()
		talk.Wait()
		table.store.close()
	})
}

// TestAChangeIsToldAtOnce: one that comes alone waits for nothing, those that come in a row share a call.
func TestAChangeIsToldAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	synctest.Test(t, func(t *testing.T) {
		table, err := openTable(path, "node")
		if err != nil {
			t.Fatal(err)
		}
		control := new(patientControl)
		m := &Manager{table: table, control: control, timing: usualTiming}
		ctx, cancel := context.WithCancel(t.Context())
		var talk sync.WaitGroup
		talk.Go(func() { m.synchronize(ctx) })
		begun := time.Now()
		change := func() {
			table.mu.Lock()
			table.announce()
			table.mu.Unlock()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		change() // at 1 s, told at once
		for range 5 {
			time.Sleep(time.Millisecond)
			change() // from 1.001 s on, told together
		}
		time.Sleep(time.Second)
		synctest.Wait()
		var got []time.Duration
		control.mu.Lock()
		for _, at := range control.began {
			got = append(got, at.Sub(begun))
		}
		control.mu.Unlock()
		if want := []time.Duration{0, time.Second, time.Second + minGap}; !slices.Equal(got, want) {
			t.Errorf("calls came at %v, want %v", got, want)
		}
		cancel()
		talk.Wait()
		table.store.close()
	})
}
