-- name: CreateSandboxes :exec
-- What a new sandbox is, all of it: itself, its first execution, the operation, and that it happened. They're of one project and one node. What is
-- empty is null.
WITH r AS (
    SELECT unnest(@ids::text[]) AS id, unnest(@templates::text[]) AS template, unnest(@executions::text[]) AS execution,
        unnest(@epochs::bigint[]) AS epoch, unnest(@placement_kinds::text[]) AS placement_kind, unnest(@pod_uids::text[]) AS pod_uid,
        unnest(@vcpus::integer[]) AS vcpus, unnest(@memory_bytes::bigint[]) AS memory_bytes, unnest(@disk_bytes::bigint[]) AS disk_bytes,
        unnest(@metadata::text[]) AS metadata, unnest(@env_sealed::bytea[]) AS env_sealed, unnest(@expires_at::text[]) AS expires_at,
        unnest(@on_expiry::text[]) AS on_expiry, unnest(@operations::text[]) AS operation, unnest(@requests::text[]) AS request,
        unnest(@traceparents::text[]) AS traceparent, unnest(@snapshots::text[]) AS snapshot, unnest(@parents::text[]) AS parent,
        unnest(@part_of::text[]) AS part_of, unnest(@auto_wakes::boolean[]) AS auto_wake, unnest(@idle_after_seconds::integer[]) AS idle_after_seconds,
        unnest(@idle_actions::text[]) AS idle_action, unnest(@idle_egresses::boolean[]) AS idle_egress, unnest(@rolling::text[]) AS rolling
), s AS (
    INSERT INTO sandboxes (id, project, template, desired, execution, vcpus, memory_bytes, disk_bytes, metadata, env_sealed, expires_at, on_expiry,
        parent_sandbox, parent_snapshot, auto_wake, idle_after_seconds, idle_action, idle_egress, rolling)
    SELECT r.id, @project, r.template, 'running', r.execution, r.vcpus, r.memory_bytes, r.disk_bytes, r.metadata::jsonb, nullif(r.env_sealed, ''::bytea),
        nullif(r.expires_at, '')::timestamptz, nullif(r.on_expiry, ''), nullif(r.parent, ''), nullif(r.snapshot, ''), r.auto_wake,
        nullif(r.idle_after_seconds, 0), nullif(r.idle_action, ''), r.idle_egress, nullif(r.rolling, '')::jsonb FROM r
), e AS (
    INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid, snapshot)
    SELECT r.execution, r.id, r.epoch, r.placement_kind, @node, r.pod_uid, nullif(r.snapshot, '') FROM r
), o AS (
    INSERT INTO operations (id, project, kind, status, sandbox, request, traceparent, part_of)
    SELECT r.operation, @project, 'create_sandbox', 'running', r.id, nullif(r.request, ''), nullif(r.traceparent, ''), nullif(r.part_of, '') FROM r
)
INSERT INTO events (project, type, sandbox, operation, data) SELECT @project, 'sandbox.created', r.id, r.operation, '{}' FROM r;

-- name: InsertExecution :exec
-- What isn't of the past of the one whose disk it has isn't of its own. Of one that is loaded from a snapshot that is all that came after that, too.
INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid, disk_of, snapshot, cold, replaces, given_up)
SELECT @id::text, @sandbox::text, @epoch::bigint, @placement_kind::text, @node::text, @pod_uid::text, sqlc.narg('disk_of')::text, sqlc.narg('snapshot')::text, @cold::boolean,
    sqlc.narg('replaces')::text, coalesce(
        (SELECT d.given_up FROM executions d WHERE d.id = sqlc.narg('disk_of')::text),
        (SELECT coalesce(l.given_up, '{}') * tstzmultirange(tstzrange(NULL, n.created_at, '(]')) + tstzmultirange(tstzrange(n.created_at, now(), '(]'))
            FROM snapshots n LEFT JOIN executions l ON l.id = n.execution WHERE n.id = sqlc.narg('snapshot')::text AND n.sandbox = @sandbox::text), '{}');

-- name: SandboxesByID :many
-- Of any project.
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.expires_at, s.on_expiry, s.created_at, s.updated_at, s.deleted_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at, e.disk_of, dst.state AS disk_state, e.snapshot, e.cold, e.replaces,
    st.snapshot AS held_by, s.suspend_into, s.parent_sandbox, s.parent_snapshot, coalesce(r.id, '')::text AS recovery, r.taken_at AS recovery_at, coalesce(r.kind, '')::text AS recovery_kind,
    s.auto_wake, s.idle_after_seconds, s.idle_action, s.idle_egress, s.rolling, s.active_at
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN execution_status dst ON dst.execution = e.disk_of
LEFT JOIN LATERAL (SELECT n.id, n.kind, nst.taken_at FROM snapshots n JOIN snapshot_status nst ON nst.snapshot = n.id
    WHERE n.sandbox = s.id AND n.deleted_at IS NULL AND nst.state = 'ready' AND nst.error_code IS NULL AND NOT e.given_up @> n.created_at ORDER BY n.created_at DESC, n.id DESC LIMIT 1) r ON true
WHERE s.id = ANY((SELECT @ids::text[])::text[]);

-- name: Sandboxes :many
-- Newest first. A condition is what the state is a function of: what is desired of a sandbox, what was observed of its execution and of the
-- one from whose disk that boots, and whether it's deleted. Without the deleted ones their index leaves them aside. It's planned for what is asked for
-- each time (see forThis): what a filter leaves decides which index is best. observed repeats of the conditions what an index knows; empty: nothing.
SELECT s.id, s.project, s.template, t.name AS template_name, s.desired, s.revision, s.vcpus, s.memory_bytes, s.disk_bytes, s.metadata,
    s.expires_at, s.on_expiry, s.created_at, s.updated_at, s.deleted_at, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid,
    st.state, st.error_code, st.error_message, st.since, st.observed_at, e.disk_of, dst.state AS disk_state, e.snapshot, e.cold, e.replaces,
    st.snapshot AS held_by, s.suspend_into, s.parent_sandbox, s.parent_snapshot, coalesce(r.id, '')::text AS recovery, r.taken_at AS recovery_at, coalesce(r.kind, '')::text AS recovery_kind,
    s.auto_wake, s.idle_after_seconds, s.idle_action, s.idle_egress, s.rolling, s.active_at
FROM sandboxes s
JOIN templates t ON t.id = s.template
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN execution_status dst ON dst.execution = e.disk_of
LEFT JOIN LATERAL (SELECT n.id, n.kind, nst.taken_at FROM snapshots n JOIN snapshot_status nst ON nst.snapshot = n.id
    WHERE n.sandbox = s.id AND n.deleted_at IS NULL AND nst.state = 'ready' AND nst.error_code IS NULL AND NOT e.given_up @> n.created_at ORDER BY n.created_at DESC, n.id DESC LIMIT 1) r ON true
WHERE s.project = @project AND (@with_deleted::boolean OR s.deleted_at IS NULL)
    AND (@any_state::boolean OR
        s.desired || ' ' || coalesce(st.state, 'pending') || CASE WHEN e.disk_of IS NULL THEN '' ELSE ' ' || coalesce(dst.state, 'pending') END
        || CASE WHEN e.replaces IS NULL THEN '' ELSE ' loaded' END
        || CASE WHEN s.deleted_at IS NULL THEN '' ELSE ' deleted' END = ANY(@conditions::text[]))
    AND (cardinality(@observed::text[]) = 0 OR st.state = ANY(@observed::text[]))
    AND (@metadata::jsonb = '{}' OR s.metadata @> @metadata::jsonb)
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (s.created_at, s.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY s.created_at DESC, s.id DESC
LIMIT @max_rows;

-- name: LockSandbox :execrows
-- Held until the transaction ends: a verb, and what a node has seen, change a sandbox one after the other.
SELECT id FROM sandboxes WHERE project = @project AND id = @id FOR NO KEY UPDATE;

-- name: LockSandboxes :exec
-- The same of several, of any project, in the order in which all lock them.
SELECT FROM sandboxes WHERE id = ANY((SELECT @ids::text[])::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: Standing :one
-- The newest epoch of all a sandbox's executions, for one that never came to run had a place in the row, too; and the operation that holds it with the fork that's part of,
-- empty if there's none.
SELECT coalesce((SELECT max(e.epoch) FROM executions e WHERE e.sandbox = @sandbox::text), 0)::bigint AS epoch,
    coalesce(o.id, '')::text AS operation, coalesce(o.kind, '')::text AS kind, coalesce(o.part_of, '')::text AS fork
FROM (SELECT) one LEFT JOIN operations o ON o.sandbox = @sandbox::text AND o.status = 'running' AND o.holds;

-- name: Desire :exec
-- A new execution, if there is one, becomes the current one.
UPDATE sandboxes SET desired = coalesce(sqlc.narg('desired')::text, desired), execution = coalesce(sqlc.narg('execution')::text, execution), revision = revision + 1, updated_at = now(),
    active_at = CASE WHEN @unasked::boolean THEN active_at ELSE now() END,
    stop_grace_millis = coalesce(sqlc.narg('stop_grace_millis')::integer, stop_grace_millis),
    suspend_into = coalesce(sqlc.narg('suspend_into')::text, suspend_into),
    expires_at = CASE WHEN @drop_lifetime::boolean THEN NULL ELSE expires_at END,
    on_expiry = CASE WHEN @drop_lifetime::boolean THEN NULL ELSE on_expiry END
WHERE id = @id;

-- name: DesireDeleted :exec
-- As Desire, of several that are to go.
UPDATE sandboxes SET desired = 'deleted', revision = revision + 1, updated_at = now(), active_at = now(), expires_at = NULL, on_expiry = NULL WHERE id = ANY((SELECT @ids::text[])::text[]);

-- name: FallBack :exec
-- What couldn't be done isn't wanted any more: what is desired is what is. An execution that never came to run leaves its place to the one before.
UPDATE sandboxes s SET desired = r.desired, execution = coalesce(nullif(r.execution, ''), s.execution), suspend_into = coalesce(nullif(r.held_by, ''), s.suspend_into),
    revision = revision + 1, updated_at = now()
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@desired::text[]) AS desired, unnest(@executions::text[]) AS execution, unnest(@held_by::text[]) AS held_by) r
WHERE s.id = r.id AND s.desired <> 'deleted';

-- name: EndLifetimes :exec
-- Of those that are suspended, as their deadline wanted.
UPDATE sandboxes SET expires_at = NULL, on_expiry = NULL WHERE id = ANY(@ids::text[]) AND on_expiry = 'suspend' AND expires_at <= now();

-- name: UpdateSandbox :exec
UPDATE sandboxes SET metadata = @metadata, env_sealed = CASE WHEN @set_env::boolean THEN sqlc.narg('env_sealed') ELSE env_sealed END,
    expires_at = @expires_at, on_expiry = @on_expiry, auto_wake = @auto_wake, idle_after_seconds = @idle_after_seconds, idle_action = @idle_action, idle_egress = @idle_egress,
    rolling = @rolling, updated_at = now(), active_at = now()
WHERE id = @id;

-- name: SandboxEnv :one
SELECT env_sealed FROM sandboxes WHERE project = @project AND id = @id;

-- name: ExpiringSandboxes :many
-- Those whose deadline has passed and whose action is possible, in their order behind a position, and the next one to come. For a suspend that has
-- failed see suspend_again_at.
SELECT s.id, s.project, s.expires_at::timestamptz AS expires_at, s.on_expiry::text AS on_expiry
FROM sandboxes s LEFT JOIN execution_status st ON st.execution = s.execution
WHERE s.expires_at IS NOT NULL AND (s.expires_at, s.id) > (@after_at::timestamptz, @after_id::text)
    AND (s.on_expiry = 'delete' AND s.desired <> 'deleted' OR s.on_expiry IN ('stop', 'suspend') AND s.desired IN ('running', 'paused') AND st.state IN ('running', 'paused'))
    AND (s.on_expiry <> 'suspend' OR coalesce(suspend_again_at(s.id) <= now(), true))
ORDER BY s.expires_at, s.id LIMIT @max_rows;

-- name: IdleSandboxes :many
-- Those with which nothing was done for as long as they say, and that can be ended as they say, the longest first, behind a position. For a suspend that has failed
-- see suspend_again_at.
SELECT s.id, s.project, s.active_at, s.idle_after_seconds::integer AS idle_after_seconds, s.idle_action::text AS idle_action, s.idle_egress
FROM sandboxes s LEFT JOIN execution_status st ON st.execution = s.execution
WHERE s.deleted_at IS NULL AND s.idle_after_seconds IS NOT NULL AND s.active_at + make_interval(secs => s.idle_after_seconds) <= @now::timestamptz
    AND (s.idle_action = 'delete' AND s.desired <> 'deleted' OR s.idle_action = 'suspend' AND s.desired IN ('running', 'paused') AND st.state IN ('running', 'paused')
        AND coalesce(suspend_again_at(s.id) <= now(), true))
    AND (s.active_at, s.id) > (@after_at::timestamptz, @after_id::text)
ORDER BY s.active_at, s.id LIMIT @max_rows;

-- name: TouchSandboxes :exec
-- Something was done with them, or, if only sent is so, they sent something, which counts where they say so. What is known within half a minute isn't written again.
UPDATE sandboxes s SET active_at = r.at
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@at::timestamptz[]) AS at) r
JOIN (SELECT x.id FROM sandboxes x WHERE x.id = ANY(@ids::text[]) FOR NO KEY UPDATE SKIP LOCKED) free ON free.id = r.id -- who holds one does something with it
WHERE s.id = r.id AND s.active_at < r.at - interval '30 seconds' AND s.deleted_at IS NULL AND (s.idle_egress OR NOT @sent::boolean);

-- name: FileKey :one
SELECT file_key_sealed FROM sandboxes WHERE id = @id;

-- name: KeepFileKey :one
-- The first key stays.
UPDATE sandboxes SET file_key_sealed = coalesce(file_key_sealed, @file_key_sealed) WHERE id = @id RETURNING file_key_sealed;

-- name: ForgetFileKey :execrows
UPDATE sandboxes SET file_key_sealed = NULL WHERE project = @project AND id = @id;

-- name: MarkDeleted :exec
UPDATE sandboxes SET deleted_at = now() WHERE id = ANY((SELECT @ids::text[])::text[]);

-- name: PausedSandboxes :many
-- Those of a node that are paused and nothing else is wanted of, the longest first. One whose suspend has just failed leaves its place to the others: see
-- suspend_again_at.
SELECT s.id, s.project FROM sandboxes s JOIN executions e ON e.id = s.execution JOIN execution_status st ON st.execution = e.id
WHERE e.node = @node AND e.gone_at IS NULL AND s.desired = 'paused' AND st.state = 'paused'
    AND coalesce(suspend_again_at(s.id) <= now(), true)
ORDER BY st.since, s.id LIMIT @max_rows;
