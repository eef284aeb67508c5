package postgres

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestGatherServesTogetherWhoComesMeanwhile has one served alone, and those who come meanwhile in turns of the most that there may be, each key for itself.
func TestGatherServesTogetherWhoComesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		turns := map[string][]int{}
		block := make(chan struct{})
		g := gather[int]{most: 4, serve: func(key string, asked []*int) {
			<-block
			mu.Lock()
			defer mu.Unlock()
			turns[key] = append(turns[key], len(asked))
		}}
		g.ask("a", new(int))
		g.ask("b", new(int))
		synctest.Wait()
		for range 6 {
			g.ask("a", new(int))
		}
		synctest.Wait()
		close(block)
		synctest.Wait()
		if got := turns["a"]; len(got) != 3 || got[0] != 1 || got[1] != 4 || got[2] != 2 || len(turns["b"]) != 1 || len(g.waiting) != 0 {
			t.Errorf("turns %v, waiting %v", turns, g.waiting)
		}
	})
}

// TestTurnsAreApartWhileSeveralAsk: one alone is served at once, however soon after another one. Who came while others were served waits for more.
func TestTurnsAreApartWhileSeveralAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		g := gather[int]{most: 4, pace: 10 * time.Millisecond, serve: func(string, []*int) {
			at = append(at, time.Since(began))
			time.Sleep(time.Millisecond)
		}}
		ask := func(after time.Duration) {
			time.Sleep(time.Until(began.Add(after)))
			g.ask("", new(int))
			synctest.Wait()
		}
		ask(0)
		ask(2 * time.Millisecond)
		ask(2500 * time.Microsecond) // while the one before is served
		ask(5 * time.Millisecond)
		ask(50 * time.Millisecond)
		time.Sleep(time.Second)
		want := []time.Duration{0, 2 * time.Millisecond, 12 * time.Millisecond, 50 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("served at %v, want %v", at, want)
		}
	})
}
