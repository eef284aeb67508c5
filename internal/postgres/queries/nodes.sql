-- name: SeeNode :exec
INSERT INTO nodes (name, driver, acceleration, cpus, memory_bytes, version)
VALUES (@name, @driver, @acceleration, @cpus, @memory_bytes, @version)
ON CONFLICT (name) DO UPDATE SET driver = excluded.driver, acceleration = excluded.acceleration, cpus = excluded.cpus,
    memory_bytes = excluded.memory_bytes, version = excluded.version, synchronized_at = now();

-- name: Node :one
SELECT name, driver, acceleration, cpus, memory_bytes, version, synchronized_at,
    (synchronized_at > now() - @within::interval)::boolean AS connected
FROM nodes WHERE name = @name;

-- name: NodeExecutions :many
-- Every execution that isn't gone, with what is wanted of it: only the current one of a running sandbox is.
SELECT e.id, e.sandbox, e.epoch, e.placement_kind, e.node, e.pod_uid, s.template, s.vcpus, s.memory_bytes, s.disk_bytes,
    (s.desired = 'running' AND s.execution = e.id)::boolean AS wanted, st.state
FROM executions e
JOIN sandboxes s ON s.id = e.sandbox
LEFT JOIN execution_status st ON st.execution = e.id
WHERE e.node = @node AND (st.state IS NULL OR st.state <> 'gone')
ORDER BY e.created_at, e.id;

-- name: NodeTemplates :many
SELECT t.id, t.recipe, t.vcpus, t.memory_bytes, t.disk_bytes, st.state, st.vcpus AS actual_vcpus,
    st.memory_bytes AS actual_memory_bytes, st.disk_bytes AS actual_disk_bytes, st.digest, st.progress
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.node = @node AND t.superseded_at IS NULL ORDER BY t.created_at, t.id;

-- name: ObserveExecution :execrows
-- What is final stays: running may become anything, failed and lost only gone.
INSERT INTO execution_status (execution, state, error_code, error_message, since)
SELECT e.id, @state::text, sqlc.narg('error_code')::text, sqlc.narg('error_message')::text, @since::timestamptz FROM executions e WHERE e.id = @execution
ON CONFLICT (execution) DO UPDATE SET state = excluded.state, error_code = coalesce(excluded.error_code, execution_status.error_code),
    error_message = coalesce(excluded.error_message, execution_status.error_message), since = excluded.since, observed_at = now()
WHERE (execution_status.state = 'running' AND excluded.state <> 'running')
    OR (execution_status.state IN ('failed', 'lost') AND excluded.state = 'gone');

-- name: ObserveTemplate :execrows
INSERT INTO template_status (template, state, vcpus, memory_bytes, disk_bytes, digest, progress, error_code, error_message)
SELECT t.id, @state::text, @vcpus::integer, @memory_bytes::bigint, @disk_bytes::bigint, @digest::text, @progress::text, sqlc.narg('error_code')::text, sqlc.narg('error_message')::text
FROM templates t WHERE t.id = @template
ON CONFLICT (template) DO UPDATE SET state = excluded.state, vcpus = excluded.vcpus, memory_bytes = excluded.memory_bytes,
    disk_bytes = excluded.disk_bytes, digest = excluded.digest, progress = excluded.progress, error_code = excluded.error_code,
    error_message = excluded.error_message, observed_at = now()
WHERE template_status.state <> 'failed';
