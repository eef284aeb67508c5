package monitor

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestDialsAtOnce: of many that dial at the same time one connects after the other, and each when the one before was ended. Otherwise those that were ended could
// fill the VMM's queue behind the one that it serves.
func TestDialsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last net.Conn // the VMM's end of the connection that was made last
		dialling := false
		port := NewPort(func(context.Context) (net.Conn, error) {
			if dialling {
				t.Error("two dial at once")
			}
			dialling = true
			time.Sleep(time.Millisecond)
			dialling = false
			if last != nil {
				last.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := last.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection before is still there")
				}
			}
			ours, theirs := net.Pipe()
			last = theirs
			return ours, nil
		})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := port.Dial(t.Context()); err != nil {
					t.Errorf("dial: %v", err)
				}
			})
		}
		all.Wait()
		port.Close()
	})
}

// TestDialWaitsForItsTurn no longer than its context.
func TestDialWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := NewPort(func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		first, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := port.Dial(first)
			ended <- err
		}()
		synctest.Wait()
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := port.Dial(second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("it ended after %s with %v", time.Since(began), err)
		}
		end()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the first ended with %v", err)
		}
	})
}
