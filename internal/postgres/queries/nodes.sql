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

-- name: ObserveExecution :execrows
-- What is final stays: running may become anything, failed and lost only gone.
INSERT INTO execution_status (execution, state, error_code, error_message, since)
SELECT e.id, @state::text, sqlc.narg('error_code')::text, sqlc.narg('error_message')::text, @since::timestamptz FROM executions e WHERE e.id = @execution
ON CONFLICT (execution) DO UPDATE SET state = excluded.state, error_code = coalesce(excluded.error_code, execution_status.error_code),
    error_message = coalesce(excluded.error_message, execution_status.error_message), since = excluded.since, observed_at = now()
WHERE (execution_status.state = 'running' AND excluded.state <> 'running')
    OR (execution_status.state IN ('failed', 'lost') AND excluded.state = 'gone');
