-- name: LockQuota :one
-- Held until the transaction ends: what counts towards a project's quota is made by one at a time. Other projects, and statements that
-- only refer to the project, don't wait.
SELECT quota_sandboxes, quota_vcpus, quota_memory_bytes, quota_disk_bytes FROM projects
WHERE id = @project AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: LockProjectForCreation :exec
-- As LockQuota, where Admission is read after it.
SELECT FROM projects WHERE id = @project AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: Admission :one
-- What decides whether there may be more sandboxes: what their project may have, what their node has and what the machines take that run there, are paused, or
-- are about to run (zero if it has never called), and which of their templates there are. Project, node and templates are locked.
SELECT p.quota_sandboxes, p.quota_vcpus, p.quota_memory_bytes, p.quota_disk_bytes, coalesce(n.cpus, 0)::integer AS cpus, coalesce(n.memory_bytes, 0)::bigint AS memory_bytes,
    coalesce(n.sandbox_memory_bytes, 0)::bigint AS sandbox_memory_bytes, coalesce(n.disk_bytes, 0)::bigint AS disk_bytes,
    coalesce(n.disk_free_bytes, 0)::bigint AS disk_free_bytes, coalesce(n.disk_pressure, '')::text AS disk_pressure,
    coalesce(n.overhead_bytes, 0)::bigint AS overhead_bytes, coalesce(n.reserved_memory_bytes, 0)::bigint AS reserved_memory_bytes, l.machines AS load_machines, l.vcpus AS load_vcpus, l.memory_bytes AS load_memory_bytes,
    (SELECT coalesce(array_agg(t.id), '{}') FROM templates t WHERE t.id = ANY((SELECT @templates::text[])::text[]) AND t.deleted_at IS NULL)::text[] AS templates
FROM projects p LEFT JOIN nodes n ON n.name = @node,
    LATERAL (SELECT count(*) AS machines, coalesce(sum(s.vcpus), 0)::bigint AS vcpus, coalesce(sum(s.memory_bytes), 0)::bigint AS memory_bytes
        FROM executions e
        JOIN sandboxes s ON s.id = e.sandbox
        LEFT JOIN execution_status st ON st.execution = e.id
        WHERE e.node = n.name AND e.gone_at IS NULL AND (st.state IS NULL OR st.state IN ('running', 'paused'))) l
WHERE p.id = @project AND p.deleted_at IS NULL;

-- name: Usage :one
SELECT sandboxes, vcpus, memory_bytes, disk_bytes FROM project_usage WHERE project = @project;
