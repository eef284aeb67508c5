-- name: InsertSnapshot :exec
INSERT INTO snapshots (id, project, sandbox, execution, epoch, placement_kind, node, pod_uid, template, kind, purpose, name, vcpus, memory_bytes, disk_bytes)
VALUES (@id, @project, @sandbox, @execution, @epoch, @placement_kind, @node, @pod_uid, @template, @kind, @purpose, @name, @vcpus, @memory_bytes, @disk_bytes);

-- name: Snapshot :one
-- By its id or its name.
SELECT n.id, n.project, n.sandbox, n.execution, n.epoch, n.placement_kind, n.node, n.pod_uid, n.template, t.name AS template_name, n.kind, n.purpose, n.name,
    n.vcpus, n.memory_bytes, n.disk_bytes, n.created_at, n.deleted_at, st.state, st.error_code, st.error_message, st.taken_at, st.pause_micros, st.bytes,
    st.digest, st.parent, st.driver, st.version, st.cpu, coalesce(e.given_up @> n.created_at, false)::boolean AS given_up
FROM snapshots n JOIN templates t ON t.id = n.template LEFT JOIN snapshot_status st ON st.snapshot = n.id
LEFT JOIN sandboxes b ON b.id = n.sandbox LEFT JOIN executions e ON e.id = b.execution
WHERE n.project = @project AND (n.id = @ref::text OR n.name = @ref::text AND n.name <> '') AND n.deleted_at IS NULL
ORDER BY coalesce(st.state IN ('failed', 'lost', 'gone'), false), n.created_at DESC LIMIT 1;

-- name: Snapshots :many
-- Newest first; of one sandbox, if that is given.
SELECT n.id, n.project, n.sandbox, n.execution, n.epoch, n.placement_kind, n.node, n.pod_uid, n.template, t.name AS template_name, n.kind, n.purpose, n.name,
    n.vcpus, n.memory_bytes, n.disk_bytes, n.created_at, n.deleted_at, st.state, st.error_code, st.error_message, st.taken_at, st.pause_micros, st.bytes,
    st.digest, st.parent, st.driver, st.version, st.cpu, coalesce(e.given_up @> n.created_at, false)::boolean AS given_up
FROM snapshots n JOIN templates t ON t.id = n.template LEFT JOIN snapshot_status st ON st.snapshot = n.id
LEFT JOIN sandboxes b ON b.id = n.sandbox LEFT JOIN executions e ON e.id = b.execution
WHERE n.project = @project AND (@sandbox::text = '' OR n.sandbox = @sandbox::text) AND n.deleted_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (n.created_at, n.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY n.created_at DESC, n.id DESC LIMIT @max_rows;

-- name: SnapshotNamed :one
SELECT EXISTS (SELECT 1 FROM snapshots n LEFT JOIN snapshot_status st ON st.snapshot = n.id
    WHERE n.project = @project AND n.name = @name AND n.deleted_at IS NULL AND coalesce(st.state, 'making') NOT IN ('failed', 'lost', 'gone'));

-- name: CountSnapshots :one
SELECT count(*) FROM snapshots WHERE sandbox = @sandbox AND deleted_at IS NULL AND gone_at IS NULL;

-- name: HoldSnapshots :many
-- Held until the transaction ends: whoever loads from a snapshot, or deletes it, does so alone. Returns those that aren't to go.
SELECT id FROM snapshots WHERE id = ANY(@ids::text[]) AND deleted_at IS NULL ORDER BY id FOR UPDATE;

-- name: DeleteSnapshots :many
-- Those of them that nothing needs. The caller holds them. Returns those that are to go now.
UPDATE snapshots n SET deleted_at = now() WHERE n.id = ANY(@ids::text[]) AND n.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM snapshots_in_use u WHERE u.snapshot = n.id)
RETURNING n.id, n.node;

-- name: DeleteProjectSnapshots :exec
-- The project has no sandbox any more that could need one.
UPDATE snapshots SET deleted_at = now() WHERE project = @project AND deleted_at IS NULL;

-- name: SnapshotUser :many
-- None or one of those that need it.
SELECT coalesce(u.sandbox, '')::text AS sandbox FROM snapshots_in_use u WHERE u.snapshot = @snapshot::text LIMIT 1;

-- name: AutomaticSnapshots :many
-- Those of sandboxes that go with them.
SELECT id FROM snapshots WHERE sandbox = ANY((SELECT @sandboxes::text[])::text[]) AND name = '' AND deleted_at IS NULL ORDER BY id;

-- name: NodeSnapshots :many
-- Every snapshot that isn't gone, with what is wanted of it, and of one that is being made the operation that deletes its sandbox; empty if none does. One that couldn't
-- be made isn't wanted any more.
SELECT n.id, n.sandbox, n.execution, n.epoch, n.placement_kind, n.node, n.pod_uid, n.kind, n.purpose,
    (n.deleted_at IS NOT NULL OR coalesce(st.state = 'failed', false))::boolean AS away, (e.id IS NOT NULL AND e.gone_at IS NULL)::boolean AS known,
    est.state AS execution_state, st.state, st.taken_at, st.pause_micros, st.bytes, st.digest, st.error_code, st.error_message, coalesce(d.id, '')::text AS deleted_by
FROM snapshots n
LEFT JOIN snapshot_status st ON st.snapshot = n.id
LEFT JOIN operations d ON d.sandbox = n.sandbox AND d.kind = 'delete_sandbox' AND coalesce(st.state = 'making', true)
LEFT JOIN executions e ON e.id = n.execution
LEFT JOIN execution_status est ON est.execution = n.execution
WHERE n.node = @node AND n.gone_at IS NULL
ORDER BY n.created_at, n.id;

-- name: LockSandboxesOfSnapshots :many
-- Held until the transaction ends; see LockSandbox.
SELECT n.id AS snapshot, s.id, s.desired, st.state
FROM snapshots n JOIN sandboxes s ON s.id = n.sandbox LEFT JOIN execution_status st ON st.execution = s.execution
WHERE n.id = ANY(@snapshots::text[]) ORDER BY s.id FOR NO KEY UPDATE OF s;

-- name: ObserveSnapshots :many
-- What is final stays: failed and lost may become only gone. A ready one with an error is damaged, and may be so no longer. Returns all that were written, with the state before.
WITH r AS (
    SELECT unnest(@snapshots::text[]) AS snapshot, unnest(@states::text[]) AS state, unnest(@error_codes::text[]) AS error_code,
        unnest(@error_messages::text[]) AS error_message, unnest(@taken_at::timestamptz[]) AS taken_at, unnest(@pause_micros::bigint[]) AS pause_micros,
        unnest(@bytes::bigint[]) AS bytes, unnest(@digests::text[]) AS digest, unnest(@parents::text[]) AS parent, unnest(@drivers::text[]) AS driver,
        unnest(@versions::text[]) AS version, unnest(@cpus::text[]) AS cpu
), before AS (
    SELECT n.id, n.sandbox, n.project, st.state FROM r JOIN snapshots n ON n.id = r.snapshot LEFT JOIN snapshot_status st ON st.snapshot = n.id
), w AS (
    INSERT INTO snapshot_status (snapshot, state, error_code, error_message, taken_at, pause_micros, bytes, digest, parent, driver, version, cpu)
    SELECT r.snapshot, r.state, nullif(r.error_code, ''), CASE WHEN r.error_code = '' THEN NULL ELSE r.error_message END, nullif(r.taken_at, 'epoch'::timestamptz),
        r.pause_micros, r.bytes, r.digest, r.parent, r.driver, r.version, r.cpu
    FROM r JOIN before b ON b.id = r.snapshot
    ON CONFLICT (snapshot) DO UPDATE SET state = excluded.state,
        error_code = CASE WHEN excluded.state = 'ready' THEN excluded.error_code ELSE coalesce(excluded.error_code, snapshot_status.error_code) END,
        error_message = CASE WHEN excluded.state = 'ready' THEN excluded.error_message ELSE coalesce(excluded.error_message, snapshot_status.error_message) END, taken_at = coalesce(excluded.taken_at, snapshot_status.taken_at),
        pause_micros = excluded.pause_micros, bytes = excluded.bytes, digest = coalesce(nullif(excluded.digest, ''), snapshot_status.digest),
        parent = coalesce(nullif(excluded.parent, ''), snapshot_status.parent), driver = coalesce(nullif(excluded.driver, ''), snapshot_status.driver),
        version = coalesce(nullif(excluded.version, ''), snapshot_status.version), cpu = coalesce(nullif(excluded.cpu, ''), snapshot_status.cpu), observed_at = now()
    WHERE snapshot_status.state IN ('making', 'ready') OR excluded.state = 'gone'
    RETURNING snapshot
)
SELECT b.id, b.sandbox, b.project, coalesce(b.state, '')::text AS before FROM w JOIN before b ON b.id = w.snapshot;

-- name: MarkSnapshotsGone :exec
UPDATE snapshots SET gone_at = now() WHERE id = ANY(@snapshots::text[]) AND gone_at IS NULL;

-- name: OperationsOfSnapshots :many
-- Those that run and wait for a snapshot.
SELECT id, kind, sandbox::text AS sandbox, snapshot::text AS snapshot, coalesce(part_of, '')::text AS fork FROM operations WHERE sandbox = ANY(@sandboxes::text[]) AND status = 'running' AND snapshot IS NOT NULL;

-- name: SnapshotOwners :many
-- The sandboxes that may have snapshots which aren't needed, in their order behind one; of one project, if that is given. Who has only one needs it, unless it's
-- deleted itself.
SELECT n.sandbox, n.project, n.desired, s.rolling
FROM (SELECT x.sandbox, x.project, coalesce(b.desired, 'deleted')::text AS desired FROM snapshots x LEFT JOIN sandboxes b ON b.id = x.sandbox
    WHERE x.deleted_at IS NULL AND x.sandbox > @after::text AND (@project::text = '' OR x.project = @project::text)
    GROUP BY x.sandbox, x.project, b.desired HAVING bool_or(x.name = '') AND (count(*) > 1 OR coalesce(b.desired, 'deleted') = 'deleted')
    ORDER BY x.sandbox LIMIT @max_rows) n
LEFT JOIN sandboxes s ON s.id = n.sandbox
ORDER BY n.sandbox;

-- name: NeededSnapshots :many
SELECT DISTINCT snapshot::text AS snapshot FROM snapshots_in_use WHERE snapshot = ANY(@ids::text[]);

-- name: SandboxesToRoll :many
-- Those that run and are to take a snapshot of themselves at a time, in their order behind one: as retention.Due decides. Intervals are kept in nanoseconds.
SELECT s.id, s.project FROM rolling_sandboxes s JOIN execution_status st ON st.execution = s.execution
WHERE s.desired = 'running' AND st.state = 'running' AND s.id > @after::text AND NOT s.making
    AND ((s.rolling->>'full_every')::bigint > 0 AND s.full_at + make_interval(secs => (s.rolling->>'full_every')::bigint / 1e9) <= @now::timestamptz
        OR (s.rolling->>'disk_every')::bigint > 0 AND s.disk_at + make_interval(secs => (s.rolling->>'disk_every')::bigint / 1e9) <= @now::timestamptz)
ORDER BY s.id LIMIT @max_rows;

-- name: Rolled :many
-- None or one row: when a sandbox took snapshots of itself last. The caller holds the sandbox.
SELECT full_at::timestamptz AS full_at, disk_at::timestamptz AS disk_at, making::boolean AS making FROM rolling_sandboxes WHERE id = @id;
