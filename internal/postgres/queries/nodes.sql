-- name: SeeNode :exec
-- A node that hasn't heard from its host yet says nothing of itself; what it said before holds.
INSERT INTO nodes (name, driver, acceleration, cpus, memory_bytes, version, sandbox_memory_bytes, memory_available_bytes, disk_bytes, disk_free_bytes, disk_pressure, overhead_bytes, reserved_memory_bytes)
VALUES (@name, @driver, @acceleration, @cpus, @memory_bytes, @version, @sandbox_memory_bytes, @memory_available_bytes, @disk_bytes, @disk_free_bytes, @disk_pressure, @overhead_bytes, @reserved_memory_bytes)
ON CONFLICT (name) DO UPDATE SET driver = coalesce(nullif(excluded.driver, ''), nodes.driver),
    acceleration = coalesce(nullif(excluded.acceleration, ''), nodes.acceleration), cpus = coalesce(nullif(excluded.cpus, 0), nodes.cpus),
    memory_bytes = coalesce(nullif(excluded.memory_bytes, 0), nodes.memory_bytes), version = coalesce(nullif(excluded.version, ''), nodes.version),
    sandbox_memory_bytes = coalesce(nullif(excluded.sandbox_memory_bytes, 0), nodes.sandbox_memory_bytes),
    memory_available_bytes = coalesce(nullif(excluded.memory_available_bytes, 0), nodes.memory_available_bytes),
    disk_bytes = CASE WHEN excluded.disk_bytes = 0 THEN nodes.disk_bytes ELSE excluded.disk_bytes END,
    disk_free_bytes = CASE WHEN excluded.disk_bytes = 0 THEN nodes.disk_free_bytes ELSE excluded.disk_free_bytes END,
    disk_pressure = CASE WHEN excluded.disk_bytes = 0 THEN nodes.disk_pressure ELSE excluded.disk_pressure END,
    overhead_bytes = CASE WHEN excluded.sandbox_memory_bytes = 0 THEN nodes.overhead_bytes ELSE excluded.overhead_bytes END,
    reserved_memory_bytes = CASE WHEN excluded.sandbox_memory_bytes = 0 THEN nodes.reserved_memory_bytes ELSE excluded.reserved_memory_bytes END,
    synchronized_at = now();

-- name: Node :one
SELECT name, driver, acceleration, cpus, memory_bytes, version, synchronized_at, sandbox_memory_bytes, memory_available_bytes, disk_bytes, disk_free_bytes, disk_pressure,
    overhead_bytes, reserved_memory_bytes, (synchronized_at > now() - @within::interval)::boolean AS connected
FROM nodes WHERE name = @name;

-- name: NodeExecutions :many
-- Every execution that isn't gone, with what is wanted of it: only the current one of a sandbox is, and until that has run, the disk that it
-- boots from. With what asked for it last: the request of the sandbox's newest operation.
SELECT e.id, e.sandbox, e.epoch, e.placement_kind, e.node, e.pod_uid, e.disk_of, s.template, s.vcpus, s.memory_bytes, s.disk_bytes, s.stop_grace_millis,
    s.suspend_into, e.snapshot, e.cold, nst.state AS snapshot_state, nst.digest AS snapshot_digest, nst.error_code AS snapshot_error_code,
    nst.error_message AS snapshot_error_message, st.snapshot AS held_by,
    (CASE WHEN s.desired = 'deleted' THEN 'gone'
        WHEN s.execution = e.id THEN s.desired
        WHEN cur.replaces = e.id AND curst.state IS NULL THEN 'kept'
        WHEN cur.disk_of = e.id AND (curst.state IS NULL OR curst.state = 'failed') THEN 'disk'
        ELSE 'gone' END)::text AS want, st.state, op.request, op.traceparent,
    coalesce(CASE WHEN op.status = 'running' THEN op.id END, '')::text AS operation
FROM executions e
JOIN sandboxes s ON s.id = e.sandbox
LEFT JOIN executions cur ON cur.id = s.execution AND cur.id <> e.id
LEFT JOIN execution_status curst ON curst.execution = cur.id
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN snapshot_status nst ON nst.snapshot = e.snapshot
LEFT JOIN LATERAL (SELECT x.id, x.status, x.request, x.traceparent FROM operations x WHERE x.sandbox = s.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) op ON true
WHERE e.node = @node AND e.gone_at IS NULL
ORDER BY e.created_at, e.id;

-- name: LockNode :exec
-- Held until the transaction ends: who places a machine sees those that were placed before.
SELECT FROM nodes WHERE name = @name FOR NO KEY UPDATE;

-- name: NodeRoom :many
-- What a node has, and what the machines take that run there, are paused, or are about to run. None: it has never called.
SELECT n.cpus, n.memory_bytes, n.sandbox_memory_bytes, n.disk_bytes, n.disk_free_bytes, n.disk_pressure, n.overhead_bytes, n.reserved_memory_bytes,
    l.machines AS load_machines, l.vcpus AS load_vcpus, l.memory_bytes AS load_memory_bytes
FROM nodes n, LATERAL (SELECT count(*) AS machines, coalesce(sum(s.vcpus), 0)::bigint AS vcpus, coalesce(sum(s.memory_bytes), 0)::bigint AS memory_bytes
    FROM executions e
    JOIN sandboxes s ON s.id = e.sandbox
    LEFT JOIN execution_status st ON st.execution = e.id
    WHERE e.node = n.name AND e.gone_at IS NULL AND (st.state IS NULL OR st.state IN ('running', 'paused'))) l
WHERE n.name = @name;

-- name: LockSandboxesOfExecutions :exec
-- Held until the transaction ends; see LockSandbox. One that isn't there has been pruned.
SELECT FROM sandboxes s JOIN executions e ON e.sandbox = s.id WHERE e.id = ANY((SELECT @executions::text[])::text[]) ORDER BY s.id FOR NO KEY UPDATE OF s;

-- name: SandboxesOfExecutions :many
-- With the operation that holds each, and the fork that it's part of; empty if there's none. They're locked.
SELECT e.id, e.sandbox, s.project, (s.execution = e.id)::boolean AS current, dst.state AS disk_state, s.desired, e.snapshot, e.replaces, rst.state AS replaced_state,
    rst.snapshot AS replaced_held_by, st.state, coalesce(o.id, '')::text AS operation, coalesce(o.kind, '')::text AS operation_kind, coalesce(o.part_of, '')::text AS fork
FROM executions e JOIN sandboxes s ON s.id = e.sandbox LEFT JOIN execution_status dst ON dst.execution = e.disk_of
LEFT JOIN execution_status rst ON rst.execution = e.replaces LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN operations o ON o.sandbox = s.id AND o.status = 'running' AND o.holds
WHERE e.id = ANY((SELECT @executions::text[])::text[]);

-- name: ObserveExecutions :many
-- What is final stays: running and paused may become anything, stopped and suspended only lost or gone, failed and lost only gone. Returns those that
-- changed.
INSERT INTO execution_status (execution, state, error_code, error_message, since, snapshot)
SELECT e.id, r.state, nullif(r.error_code, ''), CASE WHEN r.error_code = '' THEN NULL ELSE r.error_message END, r.since, nullif(r.held_by, '')
FROM (
    SELECT unnest(@executions::text[]) AS execution, unnest(@states::text[]) AS state, unnest(@error_codes::text[]) AS error_code,
        unnest(@error_messages::text[]) AS error_message, unnest(@sinces::timestamptz[]) AS since, unnest(@held_by::text[]) AS held_by
) r JOIN executions e ON e.id = r.execution
ON CONFLICT (execution) DO UPDATE SET state = excluded.state, error_code = coalesce(excluded.error_code, execution_status.error_code),
    error_message = coalesce(excluded.error_message, execution_status.error_message), since = excluded.since, observed_at = now(),
    snapshot = coalesce(excluded.snapshot, execution_status.snapshot)
WHERE (execution_status.state IN ('running', 'paused') AND excluded.state <> execution_status.state)
    OR (execution_status.state IN ('stopped', 'suspended') AND excluded.state IN ('lost', 'gone'))
    OR (execution_status.state IN ('failed', 'lost') AND excluded.state = 'gone')
RETURNING execution;

-- name: MarkExecutionsGone :exec
UPDATE executions SET gone_at = now() WHERE id = ANY((SELECT @executions::text[])::text[]) AND gone_at IS NULL;

-- name: SandboxesThatRemain :many
-- Those of which an execution isn't gone.
SELECT DISTINCT sandbox FROM executions WHERE sandbox = ANY((SELECT @sandboxes::text[])::text[]) AND gone_at IS NULL;
