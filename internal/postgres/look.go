package postgres

import (
	"context"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/postgres/db"
)

// maxLooks bounds how many records are read with one statement.
const maxLooks = 256

// look is one record that is looked for by its id.
type look[T any] struct {
	id   string
	out  T
	err  error
	done chan struct{} // closed when out and err are set
}

// looks has records read together that are looked for at the same time: whoever waited for the same change looks at once.
type looks[T any] struct {
	what   string                 // a word for one
	group  func(id string) string // those of a group share a statement
	gather gather[look[T]]
}

func all(string) string     { return "" }
func same(id string) string { return id }

// newLooks returns looks that read records of any project with a statement, by id. None is there of what doesn't exist.
func newLooks[T any](s *Store, what string, group func(string) string, read func(context.Context, *db.Queries, []string) (map[string]T, error)) *looks[T] {
	return &looks[T]{what: what, group: group, gather: gather[look[T]]{most: maxLooks, serve: func(_ string, asked []*look[T]) {
		ids := make([]string, len(asked))
		for i, l := range asked {
			ids[i] = l.id
		}
		var got map[string]T
		err := s.read(context.Background(), "read "+what+"s", func(ctx context.Context, q *db.Queries) (err error) {
			got, err = read(ctx, q, ids)
			return err
		})
		for _, l := range asked {
			var there bool
			if l.out, there = got[l.id]; !there {
				l.err = space.Errorf(space.CodeNotFound, "the %s does not exist", what)
			}
			if err != nil {
				l.err = err
			}
			close(l.done)
		}
	}}}
}

// find returns a record; not_found if there's none of that id.
func (l *looks[T]) find(ctx context.Context, id string) (out T, err error) {
	one := &look[T]{id: id, done: make(chan struct{})}
	l.gather.ask(l.group(id), one)
	select {
	case <-one.done:
		return one.out, one.err
	case <-ctx.Done():
		return out, explain("read a "+l.what, ctx.Err())
	}
}
