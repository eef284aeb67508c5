-- name: InsertSandbox :exec
INSERT INTO sandboxes (id, project, template, desired, execution, vcpus, memory_bytes, disk_bytes, metadata)
VALUES (@id, @project, @template, 'running', @execution, @vcpus, @memory_bytes, @disk_bytes, @metadata);

-- name: InsertExecution :exec
INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid)
VALUES (@id, @sandbox, @epoch, @placement_kind, @node, @pod_uid);

-- name: Sandbox :one
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.created_at, s.updated_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
WHERE s.project = @project AND s.id = @id;

-- name: Sandboxes :many
-- Newest first. A condition is what is desired of a sandbox, a blank, and what was observed of its execution.
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.created_at, s.updated_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
WHERE s.project = @project
    AND s.desired || ' ' || coalesce(st.state, 'pending') = ANY(@conditions::text[])
    AND (@metadata::jsonb = '{}' OR s.metadata @> @metadata::jsonb)
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (s.created_at, s.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY s.created_at DESC, s.id DESC
LIMIT @max_rows;

-- name: LockSandbox :one
SELECT s.desired, e.node FROM sandboxes s JOIN executions e ON e.id = s.execution
WHERE s.project = @project AND s.id = @id FOR UPDATE OF s;

-- name: DesireDeleted :exec
UPDATE sandboxes SET desired = 'deleted', revision = revision + 1, updated_at = now() WHERE id = @id;
