-- name: InsertTemplate :execrows
INSERT INTO templates (id, project, name, recipe, node, vcpus, memory_bytes, disk_bytes)
VALUES (@id, @project, @name, @recipe, @node, @vcpus, @memory_bytes, @disk_bytes)
ON CONFLICT (project, name) WHERE superseded_at IS NULL DO NOTHING;

-- name: LockTemplate :one
SELECT t.id, coalesce(st.state, 'building')::text AS state
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.project = @project AND t.name = @name AND t.superseded_at IS NULL FOR UPDATE OF t;

-- name: SupersedeTemplate :exec
UPDATE templates SET superseded_at = now() WHERE id = @id;

-- name: Template :one
SELECT t.id, t.project, t.name, t.recipe, t.node, t.vcpus, t.memory_bytes, t.disk_bytes, t.created_at,
    st.state, st.vcpus AS actual_vcpus, st.memory_bytes AS actual_memory_bytes, st.disk_bytes AS actual_disk_bytes,
    st.digest, st.progress, st.error_code, st.error_message
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.project = @project AND (t.id = @name_or_id OR t.name = @name_or_id AND t.superseded_at IS NULL);

-- name: Templates :many
-- Newest first.
SELECT t.id, t.project, t.name, t.recipe, t.node, t.vcpus, t.memory_bytes, t.disk_bytes, t.created_at,
    st.state, st.vcpus AS actual_vcpus, st.memory_bytes AS actual_memory_bytes, st.disk_bytes AS actual_disk_bytes,
    st.digest, st.progress, st.error_code, st.error_message
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.project = @project AND t.superseded_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (t.created_at, t.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY t.created_at DESC, t.id DESC
LIMIT @max_rows;
