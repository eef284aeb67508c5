-- name: ClaimIdempotencyKey :execrows
-- One row: the key is ours. None: another request holds it; its transaction has ended by the time this returns.
INSERT INTO idempotency_keys (project, key, request_hash, resource) VALUES (@project, @key, @request_hash, @resource)
ON CONFLICT (project, key) DO UPDATE
SET request_hash = excluded.request_hash, resource = excluded.resource, created_at = now()
WHERE idempotency_keys.created_at < now() - @kept::interval;

-- name: IdempotencyKey :one
SELECT request_hash, resource, created_at FROM idempotency_keys
WHERE project = @project AND key = @key AND created_at >= now() - @kept::interval;

-- name: RepointIdempotencyKey :exec
UPDATE idempotency_keys SET resource = @resource WHERE project = @project AND key = @key;
