-- name: InsertKey :exec
INSERT INTO api_keys (id, project, name, prefix, secret_hash, role, holder, expires_at)
VALUES (@id, @project, @name, @prefix, @secret_hash, @role, sqlc.narg('holder'), sqlc.narg('expires_at'));

-- name: CountKeys :one
-- Those that are valid.
SELECT count(*) FROM api_keys WHERE project = @project AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now());

-- name: KeyByHash :one
SELECT k.id, k.project, p.org, k.name, k.prefix, k.role, k.holder, u.role AS holder_role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AND p.deleted_at IS NULL AND u.removed_at IS NULL)::boolean AS valid
FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder
WHERE k.secret_hash = @secret_hash;

-- name: KeyByID :one
SELECT k.id, k.project, p.org, k.name, k.prefix, k.role, k.holder, u.role AS holder_role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AND p.deleted_at IS NULL AND u.removed_at IS NULL)::boolean AS valid
FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder
WHERE p.org = @org AND (@project::text = '' OR k.project = @project::text) AND k.id = @id;

-- name: Keys :many
-- Newest first, of one project or of all of the organisation.
SELECT k.id, k.project, p.org, k.name, k.prefix, k.role, k.holder, u.role AS holder_role, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
    (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now()) AND p.deleted_at IS NULL AND u.removed_at IS NULL)::boolean AS valid
FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder
WHERE p.org = @org AND (@project::text = '' OR k.project = @project::text)
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (k.created_at, k.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY k.created_at DESC, k.id DESC
LIMIT @max_rows;

-- name: TouchKey :exec
UPDATE api_keys SET last_used_at = now()
WHERE id = @id AND (last_used_at IS NULL OR last_used_at < now() - interval '1 hour');

-- name: RevokeKey :many
UPDATE api_keys SET revoked_at = now() WHERE id = @id AND revoked_at IS NULL RETURNING id, project;

-- name: RevokeProjectKeys :many
UPDATE api_keys SET revoked_at = now() WHERE project = @project AND revoked_at IS NULL RETURNING id, project;

-- name: RevokeUserKeys :many
UPDATE api_keys SET revoked_at = now() WHERE holder = @holder::text AND revoked_at IS NULL RETURNING id, project;

-- name: CountOwnerKeys :one
-- The valid keys that may do all in an organisation.
SELECT count(*) FROM api_keys k JOIN projects p ON p.id = k.project LEFT JOIN users u ON u.id = k.holder
WHERE p.org = @org AND p.deleted_at IS NULL AND k.role = 'owner' AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
    AND (k.holder IS NULL OR u.role = 'owner' AND u.removed_at IS NULL);

-- name: PruneKeys :execrows
-- Those that have been of no use for long.
DELETE FROM api_keys WHERE id IN (
    SELECT k.id FROM api_keys k WHERE coalesce(k.revoked_at, k.expires_at) < now() - @kept::interval LIMIT @max_rows
);

-- name: PruneUsers :execrows
DELETE FROM users WHERE id IN (
    SELECT u.id FROM users u WHERE u.removed_at < now() - @kept::interval AND NOT EXISTS (SELECT 1 FROM api_keys k WHERE k.holder = u.id)
    LIMIT @max_rows
);
