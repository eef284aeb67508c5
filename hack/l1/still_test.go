package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatStandsStillIsEnded: what has used nothing for the limit is ended then, what works now and then isn't, and what has ended isn't watched any more.
func TestWhatStandsStillIsEnded(t *testing.T) {
	const limit, test = 8 * time.Second, time.Minute
	begun := errors.New("")
	for name, c := range map[string]struct {
		works func(since time.Duration) bool
		want  error
		after time.Duration
	}{
		"stands still":       {func(time.Duration) bool { return false }, errStill, limit + time.Second},
		"stops":              {func(s time.Duration) bool { return s <= 20*time.Second }, errStill, 20*time.Second + limit},
		"works now and then": {func(s time.Duration) bool { return s%(limit-2*time.Second) == 0 }, context.DeadlineExceeded, test},
		"has ended":          {nil, begun, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), test)
				defer stop()
				ctx, cancel := context.WithCancelCause(ctx)
				start, used := time.Now(), 1
				cancelStill(ctx, cancel, func() (int, error) {
					if c.works == nil {
						return 0, fs.ErrNotExist
					}
					if c.works(time.Since(start)) {
						used++
					}
					return used, nil
				}, limit)
				if c.works == nil {
					cancel(begun)
				} else if took := time.Since(start); took != c.after {
					t.Errorf("it took %s, want %s", took, c.after)
				}
				if err := context.Cause(ctx); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestProcessorTime(t *testing.T) {
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		now, err := processorTime(os.Getpid())
		if err != nil || time.Now().After(end) {
			t.Fatalf("it's %d and was %d, %v", now, before, err)
		}
		if now > before {
			break
		}
	}
	if _, err := processorTime(1 << 30); err == nil {
		t.Error("a process that isn't there has used processor time")
	}
}
