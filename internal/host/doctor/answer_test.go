package doctor

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/space-platform/space/internal/durable"
)

// TestANoIsForgottenAfterAWhile has a host that was too busy for the guest once not be without it until it boots again.
func TestANoIsForgottenAfterAWhile(t *testing.T) {
	const name = "answer.json"
	for _, c := range []struct {
		said error
		age  time.Duration
		kept bool
	}{{nil, 0, true}, {errors.New("too slow"), 0, true}, {errors.New("too slow"), brokenTime + time.Second, false}} {
		dir, key := t.TempDir(), answerTo("a VMM", []byte("guest"))
		key.keep(dir, name, c.said)
		if c.age > 0 {
			var old answer
			path := filepath.Join(dir, name)
			if err := durable.ReadJSON(path, maxAnswer, &old); err != nil {
				t.Fatal(err)
			}
			old.At = old.At.Add(-c.age)
			if err := durable.WriteJSON(path, old, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		a, ok := key.cached(dir, name)
		if ok != c.kept || ok && (a.err() == nil) != (c.said == nil) {
			t.Errorf("%v, %s ago: %+v, %v", c.said, c.age, a, ok)
		}
		if _, ok := answerTo("another VMM", []byte("guest")).cached(dir, name); ok {
			t.Error("the answer is another VMM's, too")
		}
	}
}
