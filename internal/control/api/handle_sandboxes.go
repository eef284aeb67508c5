package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/control/sandboxes"
)

// CreateSandbox starts the creation of a sandbox, and waits for it if asked to.
func (h handlers) CreateSandbox(ctx context.Context, r gen.CreateSandboxRequestObject) (gen.CreateSandboxResponseObject, error) {
	wait, err := readWait(r.Params.Wait)
	if err != nil {
		return nil, err
	}
	request, err := readRequest(r.Params.IdempotencyKey, "createSandbox", "", r.Body)
	if err != nil {
		return nil, err
	}
	c := sandboxes.Create{
		Template: r.Body.Template, Snapshot: r.Body.Snapshot, VCPUs: r.Body.Vcpus, MemoryMiB: r.Body.MemoryMb, DiskMiB: r.Body.DiskMb,
		Metadata: orNil(r.Body.Metadata), Env: orNil(r.Body.Env), Lifetime: readLifetime(r.Body.Lifetime), Lifecycle: readLifecycle(r.Body.Lifecycle),
	}
	id, wait, err := h.createSandbox(ctx, c, request, wait)
	if err != nil {
		return nil, err
	}
	out, ended, err := h.await(ctx, id, wait)
	switch {
	case err != nil:
		return nil, err
	case ended:
		return gen.CreateSandbox201JSONResponse(out), nil
	default:
		return gen.CreateSandbox202JSONResponse(out), nil
	}
}

// ListSandboxes returns a page of the project's sandboxes.
func (h handlers) ListSandboxes(ctx context.Context, r gen.ListSandboxesRequestObject) (gen.ListSandboxesResponseObject, error) {
	l := h.list(ctx, "sandboxes")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	filter, err := readFilter(r.Params)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Sandboxes.List(ctx, caller(ctx).Project, filter, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListSandboxes200JSONResponse{Items: make([]gen.Sandbox, 0, len(rows)), NextCursor: cursor}
	for _, s := range rows {
		out.Items = append(out.Items, renderSandbox(s))
	}
	return out, nil
}

func readFilter(p gen.ListSandboxesParams) (sandboxes.Filter, error) {
	metadata, err := readMetadata(p.Metadata)
	out := sandboxes.Filter{Metadata: metadata}
	if p.State != nil {
		for _, s := range *p.State {
			out.States = append(out.States, space.State(s))
		}
	}
	return out, err
}

// GetSandbox returns a sandbox.
func (h handlers) GetSandbox(ctx context.Context, r gen.GetSandboxRequestObject) (gen.GetSandboxResponseObject, error) {
	s, err := h.Sandboxes.Get(ctx, caller(ctx).Project, r.Sandbox)
	if err != nil {
		return nil, err
	}
	out, err := h.renderWhole(ctx, s)
	return gen.GetSandbox200JSONResponse(out), err
}

// renderWhole shows a sandbox's environment as well, to those who may set it: it may hold secrets.
func (h handlers) renderWhole(ctx context.Context, s record.Sandbox) (gen.Sandbox, error) {
	out := renderSandbox(s)
	if !who(ctx).key.Role().May(space.PermissionWriteSandboxes) {
		return out, nil
	}
	env, err := h.Sandboxes.Env(ctx, s.Project, s.ID)
	if len(env) > 0 {
		shown := gen.Environment(env)
		out.Env = &shown
	}
	return out, err
}
