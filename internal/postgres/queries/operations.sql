-- name: InsertSandboxOperation :exec
INSERT INTO operations (id, project, kind, status, sandbox, request, traceparent, snapshot, holds)
VALUES (@id, @project, @kind, 'running', @sandbox::text, sqlc.narg('request'), sqlc.narg('traceparent'), sqlc.narg('snapshot'), @holds);

-- name: InsertDeletions :exec
-- Of one sandbox each. What is empty is null.
INSERT INTO operations (id, project, kind, status, sandbox, request, traceparent)
SELECT r.id, r.project, 'delete_sandbox', 'running', r.sandbox, nullif(r.request, ''), nullif(r.traceparent, '')
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@projects::text[]) AS project, unnest(@sandboxes::text[]) AS sandbox, unnest(@requests::text[]) AS request,
    unnest(@traceparents::text[]) AS traceparent) r;

-- name: InsertTemplateOperation :exec
INSERT INTO operations (id, project, kind, status, template, request, traceparent)
VALUES (@id, @project, 'build_template', 'running', @template::text, sqlc.narg('request'), sqlc.narg('traceparent'));

-- name: OperationsByID :many
-- Of any project.
SELECT o.id, o.project, o.kind, o.status, o.sandbox, o.template, o.error_code, o.error_message, o.error_field, o.request, o.created_at, o.ended_at, o.snapshot,
    (SELECT coalesce(array_agg(c.sandbox ORDER BY c.sandbox), '{}')::text[] FROM operations c WHERE c.part_of = o.id)::text[] AS children
FROM operations o WHERE o.id = ANY((SELECT @ids::text[])::text[]);

-- name: LetGo :exec
-- Has operations let go of their sandboxes, and go on.
UPDATE operations SET holds = false WHERE id = ANY(@ids::text[]) AND status = 'running';

-- name: RunningOperations :many
-- At most one of each sandbox: those that hold one, and the fork that each is part of, empty if it is of none.
SELECT id, kind, sandbox::text AS sandbox, coalesce(part_of, '')::text AS fork FROM operations WHERE sandbox = ANY((SELECT @sandboxes::text[])::text[]) AND status = 'running' AND holds;

-- name: EndOperations :exec
-- Those that run; one that has ended keeps its end. An empty error is none: it succeeded.
UPDATE operations o SET status = CASE WHEN r.error_code = '' THEN 'succeeded' ELSE 'failed' END, error_code = nullif(r.error_code, ''),
    error_message = CASE WHEN r.error_code = '' THEN NULL ELSE r.error_message END, ended_at = now()
FROM (SELECT unnest((SELECT @ids::text[])::text[]) AS id, unnest(@error_codes::text[]) AS error_code, unnest(@error_messages::text[]) AS error_message) r
WHERE o.id = r.id AND o.status = 'running';

-- name: LockForks :many
-- Held until the transaction ends: of a fork's children that end at the same time, one is the last.
SELECT id FROM operations WHERE id = ANY(@ids::text[]) AND status = 'running' ORDER BY id FOR UPDATE;

-- name: EndForks :many
-- Those whose children have all come to an end. A fork fails with the first of them that failed.
UPDATE operations f SET status = CASE WHEN x.error_code IS NULL THEN 'succeeded' ELSE 'failed' END, error_code = x.error_code, error_message = x.error_message,
    ended_at = now()
FROM (SELECT y.id, p.error_code, p.error_message FROM unnest(@ids::text[]) AS y(id)
    LEFT JOIN LATERAL (SELECT c.error_code, c.error_message FROM operations c WHERE c.part_of = y.id AND c.status = 'failed' ORDER BY c.ended_at, c.id LIMIT 1) p ON true) x
WHERE f.id = x.id AND f.status = 'running' AND NOT EXISTS (SELECT 1 FROM operations c WHERE c.part_of = f.id AND c.status = 'running')
RETURNING f.id;

-- name: SucceededSandboxOperation :many
-- The newest of that kind; none or one.
SELECT id FROM operations WHERE sandbox = @sandbox::text AND kind = @kind AND status = 'succeeded' ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: InsertEndedSandboxOperation :exec
INSERT INTO operations (id, project, kind, status, sandbox, ended_at, request, traceparent)
VALUES (@id, @project, @kind, 'succeeded', @sandbox::text, now(), sqlc.narg('request'), sqlc.narg('traceparent'));

-- name: TemplateOperation :one
-- The newest one.
SELECT id, status FROM operations WHERE template = @template::text ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: EndTemplateOperation :many
UPDATE operations SET status = @status, error_code = @error_code, error_message = @error_message, error_field = @error_field, ended_at = now()
WHERE template = @template::text AND status = 'running' RETURNING id;
