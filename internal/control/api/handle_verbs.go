package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
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
		return h.Sandboxes.Restore(ctx, project, id, r.Params.Cold != nil && *r.Params.Cold)
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
