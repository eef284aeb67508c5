package postgres

import (
	"sync"
	"testing"
	"testing/synctest"
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
