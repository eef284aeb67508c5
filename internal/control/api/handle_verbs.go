package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// PauseSandbox has a sandbox's machine stand still, and waits for it if asked to.
func (h handlers) PauseSandbox(ctx context.Context, r gen.PauseSandboxRequestObject) (gen.PauseSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Pause)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.PauseSandbox200JSONResponse(out), nil
	default:
		return gen.PauseSandbox202JSONResponse(out), nil
	}
}

// ResumeSandbox has a paused sandbox run on, and waits for it if asked to.
func (h handlers) ResumeSandbox(ctx context.Context, r gen.ResumeSandboxRequestObject) (gen.ResumeSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Resume)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.ResumeSandbox200JSONResponse(out), nil
	default:
		return gen.ResumeSandbox202JSONResponse(out), nil
	}
}

// SuspendSandbox keeps a sandbox durably and ends its machine, and waits for it if asked to.
func (h handlers) SuspendSandbox(ctx context.Context, r gen.SuspendSandboxRequestObject) (gen.SuspendSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Suspend)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.SuspendSandbox200JSONResponse(out), nil
	default:
		return gen.SuspendSandbox202JSONResponse(out), nil
	}
}

// RestoreSandbox has a suspended sandbox go on, and waits for it if asked to.
func (h handlers) RestoreSandbox(ctx context.Context, r gen.RestoreSandboxRequestObject) (gen.RestoreSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, func(ctx context.Context, project, id string) (string, error) {
		return h.Sandboxes.Restore(ctx, project, id, isTrue(r.Params.Cold))
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.RestoreSandbox200JSONResponse(out), nil
	default:
		return gen.RestoreSandbox202JSONResponse(out), nil
	}
}

// WakeSandbox has a sandbox run by whichever verb does, and waits for it if asked to.
func (h handlers) WakeSandbox(ctx context.Context, r gen.WakeSandboxRequestObject) (gen.WakeSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Wake)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.WakeSandbox200JSONResponse(out), nil
	default:
		return gen.WakeSandbox202JSONResponse(out), nil
	}
}

// RollbackSandbox has a sandbox go on from a snapshot, and waits for it if asked to.
func (h handlers) RollbackSandbox(ctx context.Context, r gen.RollbackSandboxRequestObject) (gen.RollbackSandboxResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "rollbackSandbox", r.Sandbox, []any{r.Params.Snapshot, isTrue(r.Params.Cold)})
	if err != nil {
		return nil, err
	}
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, func(ctx context.Context, project, id string) (string, error) {
		ref := ""
		if s := r.Params.Snapshot; s != nil {
			if ref = *s; ref == "" {
				return "", space.FieldErrorf("snapshot", "is empty: leave it out for the recovery point")
			}
		}
		return h.Sandboxes.Rollback(ctx, project, id, ref, isTrue(r.Params.Cold), request)
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.RollbackSandbox200JSONResponse(out), nil
	default:
		return gen.RollbackSandbox202JSONResponse(out), nil
	}
}

// ForkSandbox makes sandboxes of one, and waits for it if asked to.
func (h handlers) ForkSandbox(ctx context.Context, r gen.ForkSandboxRequestObject) (gen.ForkSandboxResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "forkSandbox", r.Sandbox, r.Body)
	if err != nil {
		return nil, err
	}
	f := sandboxes.Fork{Count: 1}
	if b := r.Body; b != nil {
		f.Metadata, f.Lifetime = orNil(b.Metadata), readLifetime(b.Lifetime)
		if b.Count != nil {
			f.Count = *b.Count
		}
	}
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, func(ctx context.Context, project, id string) (string, error) {
		return h.Sandboxes.Fork(ctx, project, id, f, request)
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.ForkSandbox201JSONResponse(out), nil
	default:
		return gen.ForkSandbox202JSONResponse(out), nil
	}
}

// CreateSnapshot takes a snapshot of a sandbox, and waits for it if asked to.
func (h handlers) CreateSnapshot(ctx context.Context, r gen.CreateSnapshotRequestObject) (gen.CreateSnapshotResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createSnapshot", r.Sandbox, r.Body)
	if err != nil {
		return nil, err
	}
	kind, name := record.SnapshotFull, ""
	if b := r.Body; b != nil {
		if b.Kind != nil {
			kind = record.SnapshotKind(*b.Kind)
		}
		if b.Name != nil {
			if name = *b.Name; name == "" {
				return nil, space.FieldErrorf("name", "is empty: leave it out for none")
			}
		}
	}
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, func(ctx context.Context, project, id string) (string, error) {
		return h.Sandboxes.Take(ctx, project, id, kind, name, request)
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.CreateSnapshot201JSONResponse(out), nil
	default:
		return gen.CreateSnapshot202JSONResponse(out), nil
	}
}

func isTrue(b *bool) bool { return b != nil && *b }
