package wake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/space-platform/space/internal/control/wake"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bell := new(wake.Bell)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w := bell.Watch("k")
		defer w.Close()
		began := time.Now()
		after := func(what string, want time.Duration, more bool) {
			t.Helper()
			if got := w.Next(ctx); got != more || time.Since(began) != want {
				t.Errorf("%s: %v after %s, want %v after %s", what, got, time.Since(began), more, want)
			}
		}
		bell.Ring("k") // nobody listens yet
		after("the first look", 0, true)
		time.AfterFunc(time.Second, func() { bell.Ring("other", "k") })
		after("news", time.Second, true)
		after("no news", 3*time.Second, true)
		bell.Ring("k")
		after("news that came meanwhile", 3*time.Second, true)
		after("no news", 5*time.Second, true)
		after("no news", 7*time.Second, true)
		after("no news", 9*time.Second, true)
		after("time is over", 10*time.Second, false)
		after("time is over", 10*time.Second, false)
	})
}

func TestWatchThatNeverLooked(t *testing.T) {
	bell := new(wake.Bell)
	bell.Watch("k").Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := bell.Watch("k")
	defer w.Close()
	if w.Next(ctx) {
		t.Error("news for who has left")
	}
}
