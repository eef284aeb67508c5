package api

import (
	"context"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/control/record"
)

// ListProjects returns a page of the projects that the caller may see.
func (h handlers) ListProjects(ctx context.Context, r gen.ListProjectsRequestObject) (gen.ListProjectsResponseObject, error) {
	l := h.list(ctx, "projects")
	after, limit, err := readPage(l, r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	rows, next, err := h.Projects.List(ctx, who(ctx).key, after, limit)
	if err != nil {
		return nil, err
	}
	cursor, err := l.write(next)
	if err != nil {
		return nil, err
	}
	out := gen.ListProjects200JSONResponse{Items: make([]gen.Project, 0, len(rows)), NextCursor: cursor}
	for _, p := range rows {
		out.Items = append(out.Items, renderProject(p))
	}
	return out, nil
}

// CreateProject makes a project.
func (h handlers) CreateProject(ctx context.Context, r gen.CreateProjectRequestObject) (gen.CreateProjectResponseObject, error) {
	request, err := readRequest(r.Params.IdempotencyKey, "createProject", "", r.Body)
	if err != nil {
		return nil, err
	}
	p, err := h.Projects.Create(ctx, who(ctx).key, r.Body.Name, readQuota(r.Body.Quota), request)
	if err != nil {
		return nil, err
	}
	return gen.CreateProject201JSONResponse(renderProject(p)), nil
}

// GetProject returns a project with what is used of its quota.
func (h handlers) GetProject(ctx context.Context, r gen.GetProjectRequestObject) (gen.GetProjectResponseObject, error) {
	p, err := h.Projects.Get(ctx, who(ctx).key, r.Project)
	if err != nil {
		return nil, err
	}
	return gen.GetProject200JSONResponse(renderProject(p)), nil
}

// UpdateProject changes a project's name or quota.
func (h handlers) UpdateProject(ctx context.Context, r gen.UpdateProjectRequestObject) (gen.UpdateProjectResponseObject, error) {
	change := record.ProjectChange{Name: r.Body.Name}
	if r.Body.Quota != nil {
		q := readQuota(r.Body.Quota)
		change.Quota = &q
	}
	p, err := h.Projects.Update(ctx, who(ctx).key, r.Project, change)
	if err != nil {
		return nil, err
	}
	return gen.UpdateProject200JSONResponse(renderProject(p)), nil
}

// DeleteProject deletes a project.
func (h handlers) DeleteProject(ctx context.Context, r gen.DeleteProjectRequestObject) (gen.DeleteProjectResponseObject, error) {
	if err := h.Projects.Delete(ctx, who(ctx).key, r.Project); err != nil {
		return nil, err
	}
	return gen.DeleteProject204Response{}, nil
}

// readQuota reads a quota; absent is unlimited. A number that doesn't fit is left for the use case to refuse.
func readQuota(q *gen.Quota) record.Quota {
	if q == nil {
		return record.Quota{}
	}
	return record.Quota{Sandboxes: widen(q.Sandboxes), VCPUs: widen(q.Vcpus), MemoryBytes: bytesOf(q.MemoryMb), DiskBytes: bytesOf(q.DiskMb)}
}

func widen(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

// bytesOf turns MiB into bytes. What would overflow becomes -1, which is refused like any other wrong number.
func bytesOf(mib *int64) *int64 {
	if mib == nil {
		return nil
	}
	b := *mib * record.MiB
	if b/record.MiB != *mib {
		b = -1
	}
	return &b
}

func renderProject(p record.Project) gen.Project {
	return gen.Project{
		Id: p.ID, Name: p.Name, CreatedAt: p.CreatedAt.UTC(),
		Quota: gen.Quota{
			Sandboxes: narrow(p.Quota.Sandboxes), Vcpus: narrow(p.Quota.VCPUs), MemoryMb: mibOf(p.Quota.MemoryBytes), DiskMb: mibOf(p.Quota.DiskBytes),
		},
		Used: gen.QuotaUse{
			Sandboxes: int(p.Used.Sandboxes), Vcpus: int(p.Used.VCPUs), MemoryMb: mib(p.Used.MemoryBytes), DiskMb: mib(p.Used.DiskBytes), UploadsMb: mib(p.UploadBytes),
		},
	}
}

func narrow(n *int64) *int {
	if n == nil {
		return nil
	}
	i := int(*n)
	return &i
}

func mibOf(b *int64) *int64 {
	if b == nil {
		return nil
	}
	m := mib(*b)
	return &m
}

// mib rounds up: what is used in part is used.
func mib(b int64) int64 { return (b + record.MiB - 1) / record.MiB }
