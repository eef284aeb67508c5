-- name: LockQuota :one
-- Held until the transaction ends: what counts towards a project's quota is made by one at a time. Other projects, and statements that
-- only refer to the project, don't wait.
SELECT quota_sandboxes, quota_vcpus, quota_memory_bytes, quota_disk_bytes FROM projects
WHERE id = @project AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: Usage :one
-- What is desired to go counts no more; what is desired to be stopped keeps its place and its disk.
SELECT count(*)::bigint AS sandboxes,
    coalesce(sum(vcpus) FILTER (WHERE desired = 'running'), 0)::bigint AS vcpus,
    coalesce(sum(memory_bytes) FILTER (WHERE desired = 'running'), 0)::bigint AS memory_bytes,
    coalesce(sum(disk_bytes), 0)::bigint AS disk_bytes
FROM sandboxes WHERE project = @project AND desired <> 'deleted' AND deleted_at IS NULL; -- the latter for the index
