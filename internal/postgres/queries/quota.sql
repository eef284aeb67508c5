-- name: LockQuota :one
-- Held until the transaction ends: what counts towards a project's quota is made by one at a time. Other projects, and statements that
-- only refer to the project, don't wait.
SELECT quota_sandboxes, quota_vcpus, quota_memory_bytes, quota_disk_bytes FROM projects
WHERE id = @project AND deleted_at IS NULL FOR NO KEY UPDATE;

-- name: Usage :one
SELECT sandboxes, vcpus, memory_bytes, disk_bytes FROM project_usage WHERE project = @project;
