package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	space "github.com/space-platform/space"
)

// turn is one of those who are served together, and what became of it.
type turn struct {
	ctx   context.Context // of the request, for what asked for it
	asked time.Time
	done  chan struct{} // closed when err and what else came of it are set
	err   error
}

func newTurn(ctx context.Context) turn {
	return turn{ctx: ctx, asked: time.Now(), done: make(chan struct{})}
}

func (t *turn) own() *turn { return t }

func (t *turn) finish(err error) {
	if err != nil {
		t.err = err
	}
	close(t.done)
}

// turner has a turn.
type turner interface{ own() *turn }

// together serves changes in one transaction, but for those of the same key, which see each other. What the server refuses for one of them doesn't hit
// the others: each is tried alone then.
func together[T turner](all []T, key func(T) string, inOne func([]T) error) {
	for _, some := range withoutTwins(stillWanted(all), key) {
		err := inOne(some)
		if len(some) > 1 && refusesOne(err) {
			for _, t := range some {
				t.own().finish(inOne([]T{t}))
			}
			continue
		}
		for _, t := range some {
			t.own().finish(err)
		}
	}
}

// stillWanted ends those whose client has left, or that have waited for their turn as long as a transaction may take: while the database is slow
// they would keep all that come later, and their requests' places, for many times that.
func stillWanted[T turner](all []T) []T {
	return slices.DeleteFunc(all, func(x T) bool {
		t := x.own()
		err := t.ctx.Err()
		if err == nil && time.Since(t.asked) > writeTimeout {
			err = context.DeadlineExceeded
		}
		if err != nil {
			t.finish(err)
		}
		return err != nil
	})
}

// refusesOne reports whether the server may have refused a statement for what one of many brought. A server that is short of something, or on whose
// locks one waits for too long, fails the others as well: to try each alone would keep all that come later waiting for as many time-outs.
func refusesOne(err error) bool {
	return errors.As(err, new(*pgconn.PgError)) && codeOf(err) == space.CodeInternal
}

// withoutTwins parts those that have the same key: the later one finds what the earlier one has made. No key is no other's.
func withoutTwins[T any](all []T, key func(T) string) [][]T {
	var out [][]T
	for len(all) > 0 {
		var now, later []T
		seen := map[string]bool{}
		for _, t := range all {
			k := key(t)
			if k != "" && seen[k] {
				later = append(later, t)
				continue
			}
			seen[k] = true
			now = append(now, t)
		}
		out, all = append(out, now), later
	}
	return out
}
