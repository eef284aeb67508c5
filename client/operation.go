package client

import (
	"context"
	"fmt"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
)

// awaitEach is how long one request waits for an operation; Await sends as many as it takes.
const awaitEach = 30 * time.Second

// GetOperation returns an operation; it waits up to the given time, at most 5 minutes, for it to end. An operation that failed is no error here.
func (c *Client) GetOperation(ctx context.Context, id string, wait time.Duration) (Operation, error) {
	op, err := decode[Operation](c.api.GetOperation(ctx, id, &gen.GetOperationParams{Wait: waitParameter(wait)}))
	if err != nil {
		return Operation{}, fmt.Errorf("get operation %s: %w", id, err)
	}
	return op, nil
}

// waitParameter writes how long a server is asked to hold its answer; nil: not at all.
func waitParameter(d time.Duration) *gen.Wait {
	if d <= 0 {
		return nil
	}
	w := fmt.Sprintf("%dms", d.Milliseconds())
	return &w
}

// Await waits until an operation has ended, and returns its error, an *Error, if it failed. It goes on waiting while the control plane is restarted, see rideMost.
func (c *Client) Await(ctx context.Context, op Operation) (Operation, error) {
	for op.Status == gen.OperationStatusRunning {
		var err error
		if op, err = c.GetOperation(ctx, op.Id, awaitEach); err != nil {
			return op, err
		}
	}
	if op.Status == gen.OperationStatusFailed {
		return op, failure(op)
	}
	return op, nil
}

func failure(op Operation) error {
	if op.Error == nil {
		return &Error{Code: "internal", Detail: fmt.Sprintf("operation %s failed and doesn't say why", op.Id)}
	}
	return fromProblem(*op.Error, 0)
}
