package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// ListSnapshots returns a page of the project's snapshots.
func (h handlers) ListSnapshots(ctx context.Context, r gen.ListSnapshotsRequestObject) (gen.ListSnapshotsResponseObject, error) {
	out, err := h.snapshots(ctx, "", r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	return gen.ListSnapshots200JSONResponse(out), nil
}

// ListSandboxSnapshots returns a page of a sandbox's snapshots.
func (h handlers) ListSandboxSnapshots(ctx context.Context, r gen.ListSandboxSnapshotsRequestObject) (gen.ListSandboxSnapshotsResponseObject, error) {
	out, err := h.snapshots(ctx, r.Sandbox, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	return gen.ListSandboxSnapshots200JSONResponse(out), nil
}

func (h handlers) snapshots(ctx context.Context, sandbox string, cursor *string, limit *int) (gen.SnapshotPage, error) {
	l := h.list(ctx, "snapshots", sandbox)
	after, most, err := readPage(l, cursor, limit)
	if err != nil {
		return gen.SnapshotPage{}, err
	}
	rows, next, err := h.Sandboxes.Snapshots(ctx, caller(ctx).Project, sandbox, after, most)
	if err != nil {
		return gen.SnapshotPage{}, err
	}
	out := gen.SnapshotPage{Items: make([]gen.Snapshot, 0, len(rows))}
	for _, n := range rows {
		out.Items = append(out.Items, renderSnapshot(n))
	}
	out.NextCursor, err = l.write(next)
	return out, err
}

// GetSnapshot returns a snapshot.
func (h handlers) GetSnapshot(ctx context.Context, r gen.GetSnapshotRequestObject) (gen.GetSnapshotResponseObject, error) {
	n, err := h.Sandboxes.Snapshot(ctx, caller(ctx).Project, r.Snapshot)
	if err != nil {
		return nil, err
	}
	return gen.GetSnapshot200JSONResponse(renderSnapshot(n)), nil
}

// DeleteSnapshot deletes a snapshot that nothing needs.
func (h handlers) DeleteSnapshot(ctx context.Context, r gen.DeleteSnapshotRequestObject) (gen.DeleteSnapshotResponseObject, error) {
	if err := h.Sandboxes.DeleteSnapshot(ctx, caller(ctx).Project, r.Snapshot); err != nil {
		return nil, err
	}
	return gen.DeleteSnapshot204Response{}, nil
}

// ListGarbage tells what would go.
func (h handlers) ListGarbage(ctx context.Context, _ gen.ListGarbageRequestObject) (gen.ListGarbageResponseObject, error) {
	all, err := h.Garbage.Find(ctx, caller(ctx).Project)
	if err != nil {
		return nil, err
	}
	return gen.ListGarbage200JSONResponse(renderGarbage(all)), nil
}

// CollectGarbage lets it go.
func (h handlers) CollectGarbage(ctx context.Context, _ gen.CollectGarbageRequestObject) (gen.CollectGarbageResponseObject, error) {
	all, err := h.Garbage.Collect(ctx, caller(ctx).Project)
	if err != nil {
		return nil, err
	}
	return gen.CollectGarbage200JSONResponse(renderGarbage(all)), nil
}

func renderGarbage(all []record.Snapshot) gen.Garbage {
	out := gen.Garbage{Items: make([]gen.Snapshot, 0, len(all))}
	for _, n := range all {
		out.Items, out.Bytes = append(out.Items, renderSnapshot(n)), out.Bytes+int64(n.Status.Bytes)
	}
	return out
}
