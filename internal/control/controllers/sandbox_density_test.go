package controllers

import (
	"context"
	"errors"
	"slices"
	"testing"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/internal/control/record"
)

// crowd is paused sandboxes of a node, the longest first.
type crowd struct {
	pressed   bool
	paused    []string
	fails     map[string]error
	resumed   string // meanwhile
	suspended []string
}

func (c *crowd) Pressed() bool { return c.pressed }

func (c *crowd) Paused(_ context.Context, node string, limit int) (out []record.SnapshotOwner, _ error) {
	for _, id := range c.paused[:min(limit, len(c.paused))] {
		out = append(out, record.SnapshotOwner{Sandbox: id})
	}
	return out, nil
}

func (c *crowd) Relieve(_ context.Context, _, id string) (bool, error) {
	if err := c.fails[id]; err != nil || c.resumed == id {
		return false, err
	}
	c.suspended = append(c.suspended, id)
	return true, nil
}

func TestRelieve(t *testing.T) {
	broken := errors.New("broken")
	for _, x := range []struct {
		name string
		c    crowd
		want []string
		err  error
	}{
		{name: "enough memory", c: crowd{paused: []string{"a"}}},
		{name: "the longest first", c: crowd{pressed: true, paused: []string{"a", "b", "c"}}, want: []string{"a", "b"}},
		{name: "one does something else", c: crowd{pressed: true, paused: []string{"a", "b"}, fails: map[string]error{"a": space.Errorf(space.CodeConflict, "busy")}}, want: []string{"b"}},
		{name: "one runs by now", c: crowd{pressed: true, paused: []string{"a", "b", "c"}, resumed: "a"}, want: []string{"b", "c"}},
		{name: "the store is away", c: crowd{pressed: true, paused: []string{"a"}, fails: map[string]error{"a": broken}}, err: broken},
		{name: "one can't be suspended", c: crowd{pressed: true, paused: []string{"a", "b", "c", "d"}, fails: map[string]error{"a": broken}}, want: []string{"b", "c"}, err: broken},
		{name: "the first can't be suspended", c: crowd{pressed: true, paused: []string{"a", "b", "c"}, fails: map[string]error{"a": broken, "b": broken}}, want: []string{"c"}, err: broken},
		{name: "nothing is paused", c: crowd{pressed: true}},
	} {
		err := relieveRound(t.Context(), "n", &x.c, &x.c, &x.c)
		if !errors.Is(err, x.err) || !slices.Equal(x.c.suspended, x.want) {
			t.Errorf("%s: %v, %v", x.name, x.c.suspended, err)
		}
	}
}
