package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// CreateSandbox creates a sandbox and waits until it runs. When the context ends first, the sandbox may exist: see BeginCreateSandbox.
func (c *Client) CreateSandbox(ctx context.Context, in SandboxCreate) (Sandbox, error) {
	return c.RepeatCreateSandbox(ctx, in, *idempotencyKey())
}

// RepeatCreateSandbox does the same under an Idempotency-Key of the caller's choice: with the same one the same project gets the same sandbox for a day.
func (c *Client) RepeatCreateSandbox(ctx context.Context, in SandboxCreate, key string) (Sandbox, error) {
	op, err := c.createSandbox(ctx, in, awaitEach, key)
	if err != nil {
		return Sandbox{}, err
	}
	op, err = c.Await(ctx, op)
	if err != nil {
		return Sandbox{}, err
	}
	return *op.Sandbox, nil
}

// BeginCreateSandbox orders a sandbox and returns the operation at once; its Sandbox has the id.
func (c *Client) BeginCreateSandbox(ctx context.Context, in SandboxCreate) (Operation, error) {
	return c.createSandbox(ctx, in, 0, *idempotencyKey())
}

func (c *Client) createSandbox(ctx context.Context, in SandboxCreate, wait time.Duration, key string) (Operation, error) {
	p := &gen.CreateSandboxParams{IdempotencyKey: &key, Wait: waitParameter(wait)}
	op, err := decode[Operation](c.api.CreateSandbox(ctx, p, in))
	if err != nil {
		return Operation{}, fmt.Errorf("create sandbox from %s: %w", cmp.Or(in.Template, in.Snapshot), err)
	}
	if op.Sandbox == nil {
		return Operation{}, fmt.Errorf("create sandbox from %s: the answer names no sandbox", cmp.Or(in.Template, in.Snapshot))
	}
	return op, nil
}

// GetSandbox returns a sandbox.
func (c *Client) GetSandbox(ctx context.Context, id string) (Sandbox, error) {
	s, err := decode[Sandbox](c.api.GetSandbox(ctx, id))
	if err != nil {
		return Sandbox{}, fmt.Errorf("get sandbox %s: %w", id, err)
	}
	return s, nil
}

// SandboxFilter chooses sandboxes; the zero one all that aren't deleted.
type SandboxFilter struct {
	Metadata map[string]string // that they have, up to 8 entries; nil: any
	States   []SandboxState    // one of which they're in; nil: any but deleted
}

func (f SandboxFilter) params() gen.ListSandboxesParams {
	var p gen.ListSandboxesParams
	for _, name := range slices.Sorted(maps.Keys(f.Metadata)) {
		p.Metadata = appendTo(p.Metadata, name+"="+f.Metadata[name])
	}
	for _, s := range f.States {
		p.State = appendTo(p.State, s)
	}
	return p
}

// appendTo appends to an optional list.
func appendTo[T any](list *[]T, v T) *[]T {
	if list == nil {
		list = new([]T)
	}
	*list = append(*list, v)
	return list
}

// ListSandboxes returns the project's sandboxes that pass a filter, newest first, a page at a time behind the scenes. An error ends the list.
func (c *Client) ListSandboxes(ctx context.Context, f SandboxFilter) iter.Seq2[Sandbox, error] {
	p := f.params()
	all := pages(func(cursor *string) (*http.Response, error) {
		p.Cursor = cursor
		return c.api.ListSandboxes(ctx, &p)
	}, func(p gen.SandboxPage) ([]Sandbox, *string) { return p.Items, p.NextCursor })
	return func(yield func(Sandbox, error) bool) {
		for s, err := range all {
			if err != nil {
				err = fmt.Errorf("list sandboxes: %w", err)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

// ListSandboxPage returns one page of what ListSandboxes returns: up to limit sandboxes, 1 to 100, after a cursor that the page before named, or
// from the newest. next is empty on the last page.
func (c *Client) ListSandboxPage(ctx context.Context, f SandboxFilter, cursor string, limit int) (items []Sandbox, next string, err error) {
	p := f.params()
	p.Cursor, p.Limit = given(cursor), &limit
	page, err := decode[gen.SandboxPage](c.api.ListSandboxes(ctx, &p))
	if err != nil {
		return nil, "", fmt.Errorf("list sandboxes: %w", err)
	}
	return page.Items, text(page.NextCursor), nil
}

// DeleteSandbox deletes a sandbox, in any state, and waits until nothing of it is left.
func (c *Client) DeleteSandbox(ctx context.Context, id string) error {
	op, err := decode[Operation](c.api.DeleteSandbox(ctx, id, &gen.DeleteSandboxParams{Wait: waitParameter(awaitEach)}))
	if err == nil {
		_, err = c.Await(ctx, op)
	}
	if err != nil {
		return fmt.Errorf("delete sandbox %s: %w", id, err)
	}
	return nil
}
