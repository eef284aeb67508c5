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

-- name: ClaimIdempotencyKeys :many
-- As ClaimIdempotencyKey, for different keys at once, in an order that all who do that have. Returns those that are ours.
INSERT INTO idempotency_keys (project, key, request_hash, resource)
SELECT @project, r.key, r.request_hash, r.resource
FROM (SELECT unnest(@keys::text[]) AS key, unnest(@request_hashes::bytea[]) AS request_hash, unnest(@resources::text[]) AS resource) r ORDER BY r.key
ON CONFLICT (project, key) DO UPDATE
SET request_hash = excluded.request_hash, resource = excluded.resource, created_at = now()
WHERE idempotency_keys.created_at < now() - @kept::interval
RETURNING key;

-- name: ReleaseIdempotencyKeys :exec
-- Those whose requests made nothing after all.
DELETE FROM idempotency_keys WHERE project = @project AND key = ANY(@keys::text[]);
