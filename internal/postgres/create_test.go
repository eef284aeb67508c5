package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	space "github.com/space-platform/space"
)

// TestTroubleIsNotTriedAlone: only what the server has against one of many creations is a reason to try each of them alone.
func TestTroubleIsNotTriedAlone(t *testing.T) {
	for state, one := range map[string]bool{
		"22P05": true, "23503": true, // something in its metadata, a project that is gone
		"55P03": false, "57014": false, "40P01": false, "53300": false, "57P01": false, // locks, time-outs, a deadlock, connections, a server that stops
	} {
		err := explain("create sandboxes", fmt.Errorf("insert: %w", &pgconn.PgError{Code: state}))
		if refusesOne(err) != one {
			t.Errorf("%s: %t", state, !one)
		}
	}
	for _, err := range []error{nil, errors.New("x"), context.DeadlineExceeded} {
		if refusesOne(err) {
			t.Errorf("%v is one's", err)
		}
	}
}

// TestCreationsThatNobodyWaitsForEnd has one whose client has left, one that has waited for too long, and one that has just come.
func TestCreationsThatNobodyWaitsForEnd(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	ask := func(ctx context.Context, ago time.Duration) *creation {
		return &creation{turn: turn{ctx: ctx, asked: time.Now().Add(-ago), done: make(chan struct{})}}
	}
	gone, late, fresh := ask(left, 0), ask(t.Context(), 2*writeTimeout), ask(t.Context(), 0)
	if wanted := stillWanted([]*creation{gone, late, fresh}); len(wanted) != 1 || wanted[0] != fresh {
		t.Errorf("%d are wanted", len(wanted))
	}
	<-gone.done
	<-late.done
	if err := explain("create", late.err); space.CodeOf(err) != space.CodeTimeout || !errors.Is(gone.err, context.Canceled) {
		t.Errorf("%v, %v", late.err, gone.err)
	}
}
