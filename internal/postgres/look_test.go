package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/postgres/db"
)

// TestLooksShareAStatement has records looked for while one is read: what is looked for meanwhile is read together, after that. Of what isn't there it's said,
// a failure is everybody's, and who gives up doesn't wait.
func TestLooksShareAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make(chan []string)
		failure := make(chan error)
		l := newLooks(New(nil), "thing", all, func(_ context.Context, _ *db.Queries, ids []string) (map[string]string, error) {
			reads <- ids
			err := <-failure
			return map[string]string{"a": "A", "b": "B"}, err
		})
		type found struct {
			id, out string
			err     error
		}
		answers := make(chan found, 9)
		find := func(ctx context.Context, id string) {
			go func() {
				out, err := l.find(ctx, id)
				answers <- found{id, out, err}
			}()
			synctest.Wait()
		}
		find(t.Context(), "a")
		first := <-reads
		gone, leave := context.WithCancel(t.Context())
		for _, id := range []string{"b", "c", "a"} {
			find(t.Context(), id)
		}
		find(gone, "b")
		leave()
		if a := <-answers; !errors.Is(a.err, context.Canceled) {
			t.Errorf("who left got %+v", a)
		}
		failure <- nil
		if a := <-answers; a != (found{"a", "A", nil}) || !slices.Equal(first, []string{"a"}) {
			t.Errorf("the first read was of %v and found %+v", first, a)
		}
		if got := <-reads; !slices.Equal(got, []string{"b", "c", "a", "b"}) {
			t.Errorf("read together: %v", got)
		}
		failure <- nil
		got := map[string]found{}
		for range 3 {
			a := <-answers
			got[a.id] = a
		}
		if got["a"].out != "A" || got["b"].out != "B" || space.CodeOf(got["c"].err) != space.CodeNotFound {
			t.Errorf("found %v", got)
		}
		find(t.Context(), "a")
		<-reads
		broken := errors.New("broken")
		failure <- broken
		if a := <-answers; !errors.Is(a.err, broken) {
			t.Errorf("of a read that failed: %+v", a)
		}
	})
}
