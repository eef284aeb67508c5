package execution

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/api/link"
)

func TestCallsOfAGuest(t *testing.T) {
	r := newRig(t)
	table, o := r.open(), order()
	ensure(t, table, o, space.ExecutionRunning)
	own := errors.New("the caller's own")
	if err := table.Guest(t.Context(), o.Route, func(l *link.Link) error { return own }); !errors.Is(err, own) {
		t.Errorf("an error of the call itself: %v", err)
	}
	err := table.Guest(t.Context(), o.Route, func(l *link.Link) error {
		l.Close()
		return l.Err()
	})
	if space.CodeOf(err) != space.CodeUnavailable {
		t.Errorf("a link that broke: %v", err)
	}
	err = table.Guest(t.Context(), o.Route, func(l *link.Link) error {
		r.running()[0].die()
		<-l.Done()
		return l.Err()
	})
	if space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("a machine that died: %v", err)
	}
	if err := table.Guest(t.Context(), o.Route, nil); space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("a machine that is gone: %v", err)
	}
	if err := table.Guest(t.Context(), order().Route, nil); space.CodeOf(err) != space.CodeExecutionLost {
		t.Errorf("an unknown execution: %v", err)
	}
}

func TestCallsOfAGuestWaitForTheirTurn(t *testing.T) {
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		r.t = t
		table, o := r.open(), order()
		ensure(t, table, o, space.ExecutionRunning)
		ctx, cancel := context.WithCancel(t.Context())
		for range maxCalls {
			go table.Guest(ctx, o.Route, func(*link.Link) error { <-ctx.Done(); return nil })
		}
		synctest.Wait()
		if err := table.Guest(t.Context(), o.Route, nil); space.CodeOf(err) != space.CodeUnavailable {
			t.Errorf("one call too many: %v", err)
		}
		cancel()
		if err := table.Guest(t.Context(), o.Route, func(*link.Link) error { return nil }); err != nil {
			t.Error(err)
		}
		remove(t, table, o.Route)
		table.Close()
	})
}
