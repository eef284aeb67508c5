package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestAnL1GetsInterrupts until it has ended, or the one that waits for it has.
func TestAnL1GetsInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const beats = 90
		ctx, stop := context.WithTimeout(t.Context(), beats*beatPause+beatPause/2)
		defer stop()
		var port bytes.Buffer
		if beat(ctx, &port); port.String() != string(bytes.Repeat([]byte{xon}, beats)) {
			t.Errorf("%q, want %d bytes", port.String(), beats)
		}
		start := time.Now()
		if beat(t.Context(), closed{}); time.Since(start) != beatPause {
			t.Errorf("it ended after %s", time.Since(start))
		}
	})
}

// closed is a port that nobody reads any more.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, os.ErrClosed }
