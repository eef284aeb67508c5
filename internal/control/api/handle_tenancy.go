package api

import (
	"context"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
)

// GetMe tells who the key is and what it may do.
func (h handlers) GetMe(ctx context.Context, _ gen.GetMeRequestObject) (gen.GetMeResponseObject, error) {
	k := who(ctx).key
	org, err := h.Projects.Org(ctx, k)
	if err != nil {
		return nil, err
	}
	project, err := h.Projects.Get(ctx, k, k.Project)
	if err != nil {
		return nil, err
	}
	out := gen.GetMe200JSONResponse{Key: renderKey(k), Project: renderProject(project), Role: gen.Role(k.Role())}
	out.Org.Id, out.Org.Name = org.ID, org.Name
	return out, nil
}

// ListRoles returns the table of roles.
func (h handlers) ListRoles(context.Context, gen.ListRolesRequestObject) (gen.ListRolesResponseObject, error) {
	var out gen.ListRoles200JSONResponse
	for _, r := range space.Roles() {
		item := struct {
			Permissions []string `json:"permissions"`
			Role        gen.Role `json:"role"`
		}{Role: gen.Role(r)}
		for _, p := range r.Permissions() {
			item.Permissions = append(item.Permissions, string(p))
		}
		out.Items = append(out.Items, item)
	}
	return out, nil
}
