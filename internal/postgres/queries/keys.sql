-- name: InsertKey :exec
INSERT INTO api_keys (id, project, name, prefix, secret_hash) VALUES (@id, @project, @name, @prefix, @secret_hash);

-- name: KeyByPrefix :one
SELECT id, project, prefix, secret_hash, revoked_at, last_used_at FROM api_keys WHERE prefix = @prefix;

-- name: TouchKey :exec
UPDATE api_keys SET last_used_at = now()
WHERE id = @id AND (last_used_at IS NULL OR last_used_at < now() - interval '1 hour');

-- name: RevokeKey :execrows
UPDATE api_keys SET revoked_at = now() WHERE id = @id AND project = @project AND revoked_at IS NULL;
