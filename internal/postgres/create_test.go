package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
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
