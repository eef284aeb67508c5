-- name: NodeTemplates :many
-- The templates that a node should have, with what was recorded of them. One that failed is final.
SELECT t.id, st.state, st.vcpus, st.memory_bytes, st.disk_bytes, st.digest, st.progress, st.failed_step, l.newest, l.newest_at,
    op.request, op.traceparent
FROM templates t
LEFT JOIN template_status st ON st.template = t.id
LEFT JOIN template_logs l ON l.template = t.id
LEFT JOIN operations op ON op.template = t.id AND op.status = 'running'
WHERE t.node = @node AND t.superseded_at IS NULL AND t.deleted_at IS NULL ORDER BY t.created_at, t.id;

-- name: ObserveTemplate :many
-- A failure is final. No row: nothing was written; else whether it is ready for the first time.
INSERT INTO template_status (template, state, vcpus, memory_bytes, disk_bytes, digest, progress, error_code, error_message, error_field, failed_step,
    env_sealed, run_as, workdir, ready_at)
SELECT t.id, @state::text, @vcpus::integer, @memory_bytes::bigint, @disk_bytes::bigint, @digest::text, @progress::text,
    sqlc.narg('error_code')::text, sqlc.narg('error_message')::text, sqlc.narg('error_field')::text, @failed_step::integer, sqlc.narg('env_sealed')::bytea, @run_as::text, @workdir::text,
    CASE WHEN @state::text = 'ready' THEN now() END
FROM templates t WHERE t.id = @template AND t.deleted_at IS NULL AND t.superseded_at IS NULL
ON CONFLICT (template) DO UPDATE SET state = excluded.state, vcpus = excluded.vcpus, memory_bytes = excluded.memory_bytes,
    disk_bytes = excluded.disk_bytes, digest = excluded.digest, progress = excluded.progress, error_code = excluded.error_code,
    error_message = excluded.error_message, error_field = excluded.error_field, failed_step = excluded.failed_step, observed_at = now(),
    env_sealed = CASE excluded.state WHEN 'ready' THEN excluded.env_sealed ELSE template_status.env_sealed END,
    run_as = CASE excluded.state WHEN 'ready' THEN excluded.run_as ELSE template_status.run_as END,
    workdir = CASE excluded.state WHEN 'ready' THEN excluded.workdir ELSE template_status.workdir END,
    ready_at = coalesce(template_status.ready_at, excluded.ready_at)
WHERE template_status.state <> 'failed'
RETURNING coalesce(ready_at = now(), false)::boolean AS first_ready;
