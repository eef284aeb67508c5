-- name: InsertEvent :exec
INSERT INTO events (project, type, sandbox, template, operation, key, data)
VALUES (@project, @type, sqlc.narg('sandbox'), sqlc.narg('template'), sqlc.narg('operation'), sqlc.narg('key'), @data);

-- name: InsertSandboxEvent :many
-- Returns the sandbox's project.
INSERT INTO events (project, type, sandbox, operation, data)
SELECT s.project, @type::text, s.id, sqlc.narg('operation')::text, @data::jsonb FROM sandboxes s WHERE s.id = @sandbox RETURNING project;

-- name: InsertSandboxEvents :exec
-- Of sandboxes that the caller has locked. What is empty is null.
INSERT INTO events (project, type, sandbox, operation, data)
SELECT r.project, r.type, r.sandbox, nullif(r.operation, ''), r.data::jsonb
FROM (SELECT unnest(@projects::text[]) AS project, unnest(@sandboxes::text[]) AS sandbox, unnest(@types::text[]) AS type, unnest(@operations::text[]) AS operation,
    unnest(@data::text[]) AS data) r;

-- name: InsertTemplateEvent :many
-- Returns the template's project.
INSERT INTO events (project, type, template, operation, data)
SELECT t.project, @type::text, t.id, sqlc.narg('operation')::text, @data::jsonb FROM templates t WHERE t.id = @template RETURNING project;

-- name: AnyUnnumberedEvent :one
SELECT EXISTS (SELECT 1 FROM events WHERE number IS NULL)::boolean;

-- name: LockEventNumbers :exec
-- Held until the transaction ends: who comes next sees what this one numbered.
SELECT pg_advisory_xact_lock(727263001);

-- name: NumberEvents :execrows
WITH next AS (
    SELECT n.id, nextval('event_numbers') AS number
    FROM (SELECT u.id FROM events u WHERE u.number IS NULL ORDER BY u.id LIMIT @max_rows) n
)
UPDATE events e SET number = next.number FROM next WHERE e.id = next.id;

-- name: Events :many
SELECT e.number::bigint AS number, e.type, e.sandbox, e.template, e.operation, e.key, e.data, e.at
FROM events e
WHERE e.project = @project AND e.number > @after::bigint AND (@sandbox::text = '' OR e.sandbox = @sandbox::text)
ORDER BY e.number LIMIT @max_rows;

-- name: EventBounds :one
-- The greatest number that is given, whosever, and the greatest of the project's that is no longer kept.
SELECT coalesce((SELECT max(e.number) FROM events e), 0)::bigint AS newest, p.events_pruned FROM projects p WHERE p.id = @project;

-- name: PruneOldEvents :many
-- By age.
DELETE FROM events WHERE id IN (
    SELECT e.id FROM events e WHERE e.at < now() - @kept::interval ORDER BY e.at LIMIT @max_rows
) RETURNING project, coalesce(number, 0)::bigint AS number;

-- name: EventExcess :many
-- The projects that have more than their share, with the number up to which it's too much.
SELECT p.id AS project, x.number::bigint AS number
FROM projects p
CROSS JOIN LATERAL (SELECT e.number FROM events e WHERE e.project = p.id AND e.number IS NOT NULL ORDER BY e.number DESC OFFSET @most LIMIT 1) x;

-- name: PruneExcessEvents :many
DELETE FROM events WHERE id IN (
    SELECT e.id FROM events e WHERE e.project = @project AND e.number <= @number::bigint ORDER BY e.number LIMIT @max_rows
) RETURNING project, number::bigint AS number;

-- name: RememberPrunedEvents :exec
UPDATE projects SET events_pruned = greatest(events_pruned, @number::bigint) WHERE id = @project;
