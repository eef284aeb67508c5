package template

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/host/promise"
)

func newJob(name string) *job {
	project, _, _ := strings.Cut(name, ".")
	return &job{template: name, project: project, memory: 1, turn: make(chan struct{})}
}

func TestWhoseTurnIsNext(t *testing.T) {
	for _, x := range []struct{ working, waiting, want string }{
		{"", "a.1 a.2", "a.1"},
		{"a.1", "a.2 b.1", "b.1"},
		{"a.1 b.1", "a.2 b.2 c.1", "c.1"},
		{"a.1 b.1", "a.2 b.2", "a.2"},
		{"a.1 a.2", "a.3", ""},
		{"a.1 a.2", "a.3 a.4 b.1", "b.1"},
		{"a.1", "a.1 a.2", "a.2"}, // one at a template at a time
		{"a.1 a.2 b.1", "c.1", ""},
	} {
		jobs := func(names string) (out []*job) {
			for _, n := range strings.Fields(names) {
				out = append(out, newJob(n))
			}
			return out
		}
		got := ""
		if j := choose(jobs(x.working), jobs(x.waiting)); j != nil {
			got = j.template
		}
		if got != x.want {
			t.Errorf("at work %q, waiting %q: %q, want %q", x.working, x.waiting, got, x.want)
		}
	}
}

// TestEverybodyGetsATurn has jobs come, end and leave in any order: the limits hold, and whoever stays gets a turn, with scarce memory too.
func TestEverybodyGetsATurn(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		room, most := int64(rapid.IntRange(1, maxBuilds).Draw(rt, "room")), int64(rapid.IntRange(1, maxBuilds).Draw(rt, "most"))
		ledger := promise.New(most)
		all := turns{fits: func(memory int64) bool { return memory <= room }, promise: ledger.Build}
		begun := func(j *job) bool {
			select {
			case <-j.turn:
				return true
			default:
				return false
			}
		}
		check := func() {
			projects := map[string]int{}
			for _, j := range all.working {
				projects[j.project]++
				if !begun(j) || projects[j.project] > maxProjectBuilds {
					rt.Fatalf("at work is %s", j.template)
				}
			}
			if left := ledger.Left(); int64(len(all.working)) != most-left {
				rt.Fatalf("%d at work, %d promised", len(all.working), most-left)
			}
			if len(all.working) > int(room) || len(all.waiting) > 0 && len(all.working) == 0 {
				rt.Fatalf("%d at work, %d waiting, room for %d", len(all.working), len(all.waiting), room)
			}
		}
		enter := func(j *job) { // as take does, without the wait
			all.mu.Lock()
			all.waiting = append(all.waiting, j)
			all.next()
			all.mu.Unlock()
		}
		var here []*job
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			if len(here) > 0 && rapid.Bool().Draw(rt, "end") {
				n := rapid.IntRange(0, len(here)-1).Draw(rt, "which")
				all.give(here[n])
				here = slices.Delete(here, n, n+1)
			} else {
				j := newJob(rapid.SampledFrom([]string{"a.1", "a.2", "a.3", "b.1", "b.2", "c.1"}).Draw(rt, "job"))
				here = append(here, j)
				enter(j)
			}
			check()
		}
		for len(all.working) > 0 {
			j := all.working[0]
			all.give(j)
			here = slices.DeleteFunc(here, func(o *job) bool { return o == j })
			check()
		}
		if len(here) > 0 {
			rt.Fatalf("%d never got a turn", len(here))
		}
	})
}

// TestNoMemoryForABuild: while others are at work their end is waited for; else there's nothing to wait for, and the next one may be smaller.
func TestNoMemoryForABuild(t *testing.T) {
	ledger := promise.New(2)
	all := turns{fits: func(int64) bool { return true }, promise: ledger.Build}
	first, large, small := newJob("a.1"), newJob("b.1"), newJob("c.1")
	large.memory = 3
	if err := all.take(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	refused, taken := make(chan error, 1), make(chan error, 1)
	go func() { refused <- all.take(t.Context(), large) }()
	for waiting := 0; waiting == 0; {
		all.mu.Lock()
		waiting = len(all.waiting)
		all.mu.Unlock()
	}
	go func() { taken <- all.take(t.Context(), small) }()
	for waiting := 1; waiting == 1; {
		all.mu.Lock()
		waiting = len(all.waiting)
		all.mu.Unlock()
	}
	all.give(first)
	if err := <-refused; space.CodeOf(err) != space.CodeCapacity {
		t.Errorf("more than there is: %v, want %s", err, space.CodeCapacity)
	}
	if err := <-taken; err != nil {
		t.Errorf("the next: %v", err)
	}
	all.give(small)
	if ledger.Left() != 2 {
		t.Errorf("%d are left", ledger.Left())
	}
}

func TestWaitForATurnEnds(t *testing.T) {
	all := turns{fits: func(int64) bool { return false }, promise: promise.New(10).Build}
	first, second := newJob("a.1"), newJob("b.1")
	if err := all.take(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("not wanted any more")
	cancel(why)
	if err := all.take(ctx, second); !errors.Is(err, why) || len(all.waiting) > 0 {
		t.Errorf("%v, %d wait", err, len(all.waiting))
	}
}
