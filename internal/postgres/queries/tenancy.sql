-- name: InsertOrg :exec
INSERT INTO orgs (id, name) VALUES (@id, @name) ON CONFLICT (name) DO NOTHING;

-- name: InsertProject :exec
INSERT INTO projects (id, org, name)
SELECT @id, o.id, @name FROM orgs o WHERE o.name = @org_name
ON CONFLICT (org, name) DO NOTHING;

-- name: ProjectByName :one
SELECT p.id FROM projects p JOIN orgs o ON o.id = p.org WHERE o.name = @org_name AND p.name = @name;
