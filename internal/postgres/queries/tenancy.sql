-- name: InsertOrg :exec
INSERT INTO orgs (id, name) VALUES (@id, @name) ON CONFLICT (name) DO NOTHING;

-- name: LockOrgByName :one
SELECT id FROM orgs WHERE name = @name FOR NO KEY UPDATE;

-- name: OldestProject :one
SELECT id FROM projects WHERE org = @org AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1;

-- name: LockOrg :one
-- Whoever changes who may do what in an organisation holds this until the transaction ends.
SELECT id, name FROM orgs WHERE id = @id FOR NO KEY UPDATE;

-- name: LockOrgOf :one
SELECT o.id FROM orgs o JOIN projects p ON p.org = o.id WHERE p.id = @project FOR NO KEY UPDATE OF o;

-- name: Org :one
SELECT id, name FROM orgs WHERE id = @id;

-- name: CreateProject :execrows
INSERT INTO projects (id, org, name, quota_sandboxes, quota_vcpus, quota_memory_bytes, quota_disk_bytes)
VALUES (@id, @org, @name, @quota_sandboxes, @quota_vcpus, @quota_memory_bytes, @quota_disk_bytes)
ON CONFLICT (org, name) WHERE deleted_at IS NULL DO NOTHING;

-- name: CountProjects :one
SELECT count(*) FROM projects WHERE org = @org AND deleted_at IS NULL;

-- name: Project :one
SELECT p.id, p.org, p.name, p.quota_sandboxes, p.quota_vcpus, p.quota_memory_bytes, p.quota_disk_bytes, p.created_at,
    u.sandboxes, u.vcpus, u.memory_bytes, u.disk_bytes,
    (SELECT coalesce(sum(x.bytes), 0) FROM uploads x WHERE x.project = p.id AND x.deleted_at IS NULL)::bigint AS upload_bytes
FROM projects p JOIN project_usage u ON u.project = p.id
WHERE p.org = @org AND p.id = @id AND p.deleted_at IS NULL;

-- name: Projects :many
-- Newest first.
SELECT p.id, p.org, p.name, p.quota_sandboxes, p.quota_vcpus, p.quota_memory_bytes, p.quota_disk_bytes, p.created_at,
    u.sandboxes, u.vcpus, u.memory_bytes, u.disk_bytes,
    (SELECT coalesce(sum(x.bytes), 0) FROM uploads x WHERE x.project = p.id AND x.deleted_at IS NULL)::bigint AS upload_bytes
FROM projects p JOIN project_usage u ON u.project = p.id
WHERE p.org = @org AND p.deleted_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (p.created_at, p.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY p.created_at DESC, p.id DESC
LIMIT @max_rows;

-- name: LockProject :one
SELECT p.id FROM projects p WHERE p.org = @org AND p.id = @id AND p.deleted_at IS NULL FOR NO KEY UPDATE;

-- name: ProjectNameTaken :one
SELECT EXISTS (SELECT 1 FROM projects WHERE org = @org AND name = @name AND id <> @id AND deleted_at IS NULL)::boolean;

-- name: RenameProject :exec
UPDATE projects SET name = @name WHERE id = @id;

-- name: SetQuota :exec
UPDATE projects SET quota_sandboxes = @quota_sandboxes, quota_vcpus = @quota_vcpus, quota_memory_bytes = @quota_memory_bytes,
    quota_disk_bytes = @quota_disk_bytes WHERE id = @id;

-- name: DeleteProject :exec
UPDATE projects SET deleted_at = now() WHERE id = @id;

-- name: TemplatesOfProject :many
SELECT id FROM templates WHERE project = @project AND deleted_at IS NULL ORDER BY id;

-- name: HoldSharedTemplates :exec
-- Until the transaction ends, no other project begins with what this one shares.
SELECT id FROM templates WHERE project = @project AND shared AND deleted_at IS NULL ORDER BY id FOR UPDATE;

-- name: ForeignUsers :one
-- What other projects make from this one's templates, as in TemplateUsers. A statement of its own: it sees what was made before the templates were held.
SELECT (SELECT count(*) FROM sandboxes s JOIN templates t ON t.id = s.template
        WHERE t.project = @project AND t.shared AND t.deleted_at IS NULL AND s.project <> @project AND s.desired <> 'deleted') AS sandboxes,
    (SELECT count(*) FROM snapshots n JOIN templates t ON t.id = n.template
        WHERE t.project = @project AND t.shared AND t.deleted_at IS NULL AND n.project <> @project AND n.deleted_at IS NULL AND n.gone_at IS NULL) AS snapshots,
    (SELECT count(*) FROM templates b JOIN templates t ON t.id = b.base LEFT JOIN template_status st ON st.template = b.id
        WHERE t.project = @project AND t.shared AND t.deleted_at IS NULL AND b.project <> @project
        AND b.superseded_at IS NULL AND b.deleted_at IS NULL AND coalesce(st.state, 'building') = 'building') AS builds;

-- name: CreateUser :execrows
INSERT INTO users (id, org, name, role) VALUES (@id, @org, @name, @role)
ON CONFLICT (org, name) WHERE removed_at IS NULL DO NOTHING;

-- name: CountUsers :one
SELECT count(*) FROM users WHERE org = @org AND removed_at IS NULL;

-- name: User :one
SELECT id, name, role, created_at FROM users WHERE org = @org AND id = @id AND removed_at IS NULL;

-- name: Users :many
-- Newest first.
SELECT id, name, role, created_at FROM users
WHERE org = @org AND removed_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (created_at, id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY created_at DESC, id DESC
LIMIT @max_rows;

-- name: SetUserRole :execrows
UPDATE users SET role = @role WHERE org = @org AND id = @id AND removed_at IS NULL;

-- name: RemoveUser :execrows
UPDATE users SET removed_at = now() WHERE org = @org AND id = @id AND removed_at IS NULL;
