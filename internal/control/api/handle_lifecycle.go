package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// forever is what a lifetime that isn't one says of its expiry.
const forever = gen.LifetimeOnExpiryNone

// UpdateSandbox changes what isn't the machine's doing.
func (h handlers) UpdateSandbox(ctx context.Context, r gen.UpdateSandboxRequestObject) (gen.UpdateSandboxResponseObject, error) {
	u := sandboxes.Update{Metadata: orNil(r.Body.Metadata), Env: orNil(r.Body.Env), Lifetime: readLifetime(r.Body.Lifetime), Lifecycle: readLifecycle(r.Body.Lifecycle)}
	if l := r.Body.Lifetime; l != nil && l.OnExpiry == forever && l.Deadline == nil && l.Seconds == nil {
		u.Lifetime, u.Forever = nil, true
	}
	s, err := h.Sandboxes.Update(ctx, caller(ctx).Project, r.Sandbox, u)
	if err != nil {
		return nil, err
	}
	out, err := h.renderWhole(ctx, s)
	return gen.UpdateSandbox200JSONResponse(out), err
}

func readLifetime(l *gen.Lifetime) *sandboxes.Lifetime {
	if l == nil {
		return nil
	}
	return &sandboxes.Lifetime{Deadline: l.Deadline, Seconds: l.Seconds, OnExpiry: string(l.OnExpiry)}
}

// orNil is the map that is given; nil if none is. One that is given empty stays so.
func orNil[M ~map[string]string](m *M) map[string]string {
	if m == nil {
		return nil
	}
	if *m == nil {
		return map[string]string{}
	}
	return *m
}

// verb starts a lifecycle change, and waits for it if asked to. It returns the operation and whether it has ended.
func (h handlers) verb(ctx context.Context, sandbox string, waits *string, begin func(ctx context.Context, project, id string) (string, error)) (gen.Operation, bool, error) {
	wait, err := readWait(waits)
	if err != nil {
		return gen.Operation{}, false, err
	}
	id, err := begin(ctx, caller(ctx).Project, sandbox)
	if err != nil {
		return gen.Operation{}, false, err
	}
	return h.await(ctx, id, wait)
}

// StopSandbox starts the stop of a sandbox, and waits for it if asked to.
func (h handlers) StopSandbox(ctx context.Context, r gen.StopSandboxRequestObject) (gen.StopSandboxResponseObject, error) {
	grace, err := readGrace(r.Params.Grace)
	if err != nil {
		return nil, err
	}
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, func(ctx context.Context, project, id string) (string, error) {
		return h.Sandboxes.Stop(ctx, project, id, grace)
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.StopSandbox200JSONResponse(out), nil
	default:
		return gen.StopSandbox202JSONResponse(out), nil
	}
}

// StartSandbox starts a sandbox from its disk, and waits for it if asked to.
func (h handlers) StartSandbox(ctx context.Context, r gen.StartSandboxRequestObject) (gen.StartSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Start)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.StartSandbox200JSONResponse(out), nil
	default:
		return gen.StartSandbox202JSONResponse(out), nil
	}
}

// DeleteSandbox starts the end of a sandbox, and waits for it if asked to.
func (h handlers) DeleteSandbox(ctx context.Context, r gen.DeleteSandboxRequestObject) (gen.DeleteSandboxResponseObject, error) {
	out, ended, err := h.verb(ctx, r.Sandbox, r.Params.Wait, h.Sandboxes.Delete)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.DeleteSandbox200JSONResponse(out), nil
	default:
		return gen.DeleteSandbox202JSONResponse(out), nil
	}
}
