package api

import (
	"context"
	"time"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// GetOperation returns an operation, at once or when it has ended.
func (h handlers) GetOperation(ctx context.Context, r gen.GetOperationRequestObject) (gen.GetOperationResponseObject, error) {
	wait, err := readWait(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	out, _, err := h.await(ctx, r.Operation, wait)
	if err != nil {
		return nil, err
	}
	return gen.GetOperation200JSONResponse(out), nil
}

// await returns an operation with what it's about, and whether it has ended.
func (h handlers) await(ctx context.Context, id string, wait time.Duration) (gen.Operation, bool, error) {
	project := caller(ctx).Project
	o, err := h.Operations.Wait(ctx, project, id, wait)
	if err != nil {
		return gen.Operation{}, false, err
	}
	if err := keyEnded(ctx); err != nil {
		return gen.Operation{}, false, err
	}
	// As in Wait: the server may be about to stop, and still tells what is known.
	ctx = context.WithoutCancel(ctx)
	out := gen.Operation{
		Id: o.ID, Kind: gen.OperationKind(o.Kind), Status: gen.OperationStatus(o.Status), Error: problemOf(o.Error, o.Asked),
		CreatedAt: o.CreatedAt.UTC(), EndedAt: notZero(o.EndedAt),
	}
	if o.Kind == record.ForkSandbox {
		children := notNil(o.Children)
		out.Children = &children
	}
	return out, o.Ended(), h.addSubject(ctx, project, o, &out)
}

// addSubject adds the sandbox or the template that an operation is about; it may have been pruned meanwhile.
func (h handlers) addSubject(ctx context.Context, project string, o record.Operation, out *gen.Operation) error {
	var err error
	if o.Sandbox != "" {
		var s record.Sandbox
		if s, err = h.Sandboxes.Get(ctx, project, o.Sandbox); err == nil {
			shown := renderSandbox(s)
			out.Sandbox = &shown
			err = h.addSnapshot(ctx, project, o, out)
		}
	} else {
		var t record.Template
		if t, err = h.Templates.Get(ctx, project, o.Template); err == nil {
			shown := renderTemplate(t)
			out.Template = &shown
		}
	}
	if space.CodeOf(err) == space.CodeNotFound {
		return nil
	}
	return err
}

// addSnapshot adds the snapshot that an operation makes or loads; it may be deleted by now.
func (h handlers) addSnapshot(ctx context.Context, project string, o record.Operation, out *gen.Operation) error {
	if o.Snapshot == "" {
		return nil
	}
	n, err := h.Sandboxes.Snapshot(ctx, project, o.Snapshot)
	if err != nil {
		return err
	}
	shown := renderSnapshot(n)
	out.Snapshot = &shown
	return nil
}
