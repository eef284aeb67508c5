package service

import (
	"slices"
	"testing"
	"time"
)

// TestPace has changes come at their times, in ms: a few are told at once, however near they are, many are told together, and after a rest some are told at once again.
func TestPace(t *testing.T) {
	began := time.Now()
	ms := func(n int) time.Time { return began.Add(time.Duration(n) * time.Millisecond) }
	var p pace
	var got []int
	for _, at := range []int{0, 1, 2, 3, 4, 5, 20, 22, 50, 51} {
		now := ms(at)
		if now.Before(p.last) { // it's told with the one before
			continue
		}
		if d := p.wait(now); d > 0 {
			now = now.Add(d)
		}
		p.sent(now)
		got = append(got, int(now.Sub(began).Milliseconds()))
	}
	if want := []int{0, 1, 2, 3, 4, 14, 24, 50, 51}; !slices.Equal(got, want) {
		t.Errorf("told at %v, want %v", got, want)
	}
}
