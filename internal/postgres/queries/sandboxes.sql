-- name: InsertSandbox :exec
INSERT INTO sandboxes (id, project, template, desired, execution, vcpus, memory_bytes, disk_bytes, metadata, env_sealed, expires_at, on_expiry)
VALUES (@id, @project, @template, 'running', @execution, @vcpus, @memory_bytes, @disk_bytes, @metadata, @env_sealed, @expires_at, @on_expiry);

-- name: InsertExecution :exec
INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid, disk_of)
VALUES (@id, @sandbox, @epoch, @placement_kind, @node, @pod_uid, @disk_of);

-- name: Sandbox :one
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.expires_at, s.on_expiry, s.created_at, s.updated_at, s.deleted_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at, e.disk_of, dst.state AS disk_state
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN execution_status dst ON dst.execution = e.disk_of
WHERE s.project = @project AND s.id = @id;

-- name: Sandboxes :many
-- Newest first. A condition is what the state is a function of: what is desired of a sandbox, what was observed of its execution and of the
-- one from whose disk that boots, and whether it's deleted. Without the deleted ones their index leaves them aside.
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.expires_at, s.on_expiry, s.created_at, s.updated_at, s.deleted_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at, e.disk_of, dst.state AS disk_state
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN execution_status dst ON dst.execution = e.disk_of
WHERE s.project = @project AND (@with_deleted::boolean OR s.deleted_at IS NULL)
    AND s.desired || ' ' || coalesce(st.state, 'pending') || CASE WHEN e.disk_of IS NULL THEN '' ELSE ' ' || coalesce(dst.state, 'pending') END
        || CASE WHEN s.deleted_at IS NULL THEN '' ELSE ' deleted' END = ANY(@conditions::text[])
    AND (@metadata::jsonb = '{}' OR s.metadata @> @metadata::jsonb)
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (s.created_at, s.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY s.created_at DESC, s.id DESC
LIMIT @max_rows;

-- name: LockSandbox :one
-- Held until the transaction ends: a verb, and what a node has seen, change a sandbox one after the other.
SELECT id FROM sandboxes WHERE project = @project AND id = @id FOR NO KEY UPDATE;

-- name: Desire :exec
-- A new execution, if there is one, becomes the current one.
UPDATE sandboxes SET desired = @desired, execution = coalesce(sqlc.narg('execution')::text, execution), revision = revision + 1, updated_at = now(),
    stop_grace_millis = coalesce(sqlc.narg('stop_grace_millis')::integer, stop_grace_millis),
    expires_at = CASE WHEN @drop_lifetime::boolean THEN NULL ELSE expires_at END,
    on_expiry = CASE WHEN @drop_lifetime::boolean THEN NULL ELSE on_expiry END
WHERE id = @id;

-- name: UpdateSandbox :exec
UPDATE sandboxes SET metadata = @metadata, env_sealed = CASE WHEN @set_env::boolean THEN sqlc.narg('env_sealed') ELSE env_sealed END,
    expires_at = @expires_at, on_expiry = @on_expiry, updated_at = now()
WHERE id = @id;

-- name: SandboxEnv :one
SELECT env_sealed FROM sandboxes WHERE project = @project AND id = @id;

-- name: ExpiringSandboxes :many
-- Those whose deadline has passed and whose action is possible, in their order behind a position, and the next one to come.
SELECT s.id, s.project, s.expires_at::timestamptz AS expires_at, s.on_expiry::text AS on_expiry
FROM sandboxes s LEFT JOIN execution_status st ON st.execution = s.execution
WHERE s.expires_at IS NOT NULL AND (s.expires_at, s.id) > (@after_at::timestamptz, @after_id::text)
    AND (s.on_expiry = 'delete' AND s.desired <> 'deleted' OR s.on_expiry = 'stop' AND s.desired = 'running' AND st.state = 'running')
ORDER BY s.expires_at, s.id LIMIT @max_rows;

-- name: FileKey :one
SELECT file_key_sealed FROM sandboxes WHERE id = @id;

-- name: KeepFileKey :one
-- The first key stays.
UPDATE sandboxes SET file_key_sealed = coalesce(file_key_sealed, @file_key_sealed) WHERE id = @id RETURNING file_key_sealed;

-- name: ForgetFileKey :execrows
UPDATE sandboxes SET file_key_sealed = NULL WHERE project = @project AND id = @id;

-- name: MarkDeleted :exec
UPDATE sandboxes SET deleted_at = now() WHERE id = @id;
