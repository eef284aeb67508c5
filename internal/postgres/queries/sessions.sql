-- name: CreateSession :one
-- A session with its first attachment token, unless the sandbox has had as many as it may, or another request holds the Idempotency-Key ('': there is
-- none), whose transaction has ended by the time this returns. One statement, since a command is waited for. As FixSession it's fixed to an execution ('':
-- to none) which is still the sandbox's current one.
WITH had AS (SELECT count(*) AS n FROM sessions x WHERE x.sandbox = @sandbox),
claimed AS (
    INSERT INTO idempotency_keys (project, key, request_hash, resource)
    SELECT @project, @key, @request_hash::bytea, @id FROM had WHERE @key::text <> '' AND had.n < @most::bigint
    ON CONFLICT (project, key) DO UPDATE
    SET request_hash = excluded.request_hash, resource = excluded.resource, created_at = now()
    WHERE idempotency_keys.created_at < now() - @kept::interval
    RETURNING key
),
fixed AS (
    SELECT s.execution, now() AS at FROM sandboxes s WHERE s.id = @sandbox AND s.execution = @execution::text AND s.desired = 'running'
),
created AS (
    INSERT INTO sessions (id, sandbox, argv, cwd, run_as, secret_sealed, open_stdin, tty_rows, tty_cols, timeout_seconds, execution, started_at)
    SELECT @id, @sandbox, @argv::text[], @cwd, @run_as, @secret_sealed::bytea, @open_stdin::boolean, @tty_rows::integer, @tty_cols::integer, @timeout_seconds::integer,
        fixed.execution, fixed.at
    FROM had LEFT JOIN fixed ON true WHERE had.n < @most::bigint AND (@key::text = '' OR EXISTS (SELECT 1 FROM claimed))
    RETURNING id, created_at, (execution IS NOT NULL)::boolean AS fixed
),
issued AS (
    INSERT INTO attachments (token_hash, session, expires_at, issued_by)
    SELECT @token_hash::bytea, created.id, now() + @life::interval, sqlc.narg('issued_by')::text FROM created
    RETURNING expires_at
)
SELECT had.n AS had, created.created_at, created.fixed, issued.expires_at FROM had LEFT JOIN created ON true LEFT JOIN issued ON true;

-- name: InsertAttachment :exec
-- One that is there was derived for the same request, which came twice at once.
INSERT INTO attachments (token_hash, session, expires_at, issued_by) VALUES (@token_hash, @session, now() + @life::interval, sqlc.narg('issued_by'))
ON CONFLICT (token_hash) DO NOTHING;

-- name: Session :one
-- Without its environment and stdin, which only the attach needs. One whose end nobody has told and whose execution is lost is lost with it.
SELECT x.id, x.sandbox, x.argv, x.cwd, x.run_as, x.open_stdin, x.tty_rows, x.tty_cols, x.timeout_seconds, x.execution, x.created_at, x.started_at,
    x.ended_at, x.exit_code, x.exit_signal, x.exit_error, x.timed_out, x.stopped, x.lost, x.output_bytes, st.state, st.since, st.error_message
FROM sessions x JOIN sandboxes s ON s.id = x.sandbox LEFT JOIN execution_status st ON st.execution = x.execution AND st.state IN ('lost', 'failed', 'gone')
WHERE s.project = @project AND x.sandbox = @sandbox AND x.id = @id;

-- name: Sessions :many
-- Newest first; as Session. The caller has checked that the sandbox is the project's.
SELECT x.id, x.sandbox, x.argv, x.cwd, x.run_as, x.open_stdin, x.tty_rows, x.tty_cols, x.timeout_seconds, x.execution, x.created_at, x.started_at,
    x.ended_at, x.exit_code, x.exit_signal, x.exit_error, x.timed_out, x.stopped, x.lost, x.output_bytes, st.state, st.since, st.error_message
FROM sessions x LEFT JOIN execution_status st ON st.execution = x.execution AND st.state IN ('lost', 'failed', 'gone')
WHERE x.sandbox = @sandbox
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (x.created_at, x.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY x.created_at DESC, x.id DESC LIMIT @max_rows;

-- name: Attachment :one
SELECT session, expires_at FROM attachments WHERE token_hash = @token_hash;

-- name: AttachmentTarget :one
-- Everything that the resolution of a token is decided by, and the session to run.
-- A token that was issued to the holder of a sandbox token is good for no longer than that.
SELECT a.token_hash, a.expires_at, (a.expires_at <= now() OR coalesce(k.expires_at <= now(), false))::boolean AS expired,
    (a.revoked_at IS NOT NULL OR k.revoked_at IS NOT NULL)::boolean AS revoked,
    x.id AS session, x.argv, x.cwd, x.run_as, x.secret_sealed, x.open_stdin, x.tty_rows, x.tty_cols, x.timeout_seconds, x.execution AS session_execution, (x.ended_at IS NOT NULL)::boolean AS session_ended,
    s.id AS sandbox, s.project, s.auto_wake, s.desired, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid, e.disk_of, e.snapshot, st.state, st.error_code, st.error_message
FROM attachments a
LEFT JOIN sandbox_tokens k ON k.id = a.issued_by
JOIN sessions x ON x.id = a.session
JOIN sandboxes s ON s.id = x.sandbox
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
WHERE a.token_hash = @token_hash;

-- name: FixSession :execrows
-- Only the first attach fixes a session, and only to the execution that is still the sandbox's current one.
UPDATE sessions x SET execution = @execution::text, started_at = now()
FROM sandboxes s
WHERE x.id = @id AND x.execution IS NULL AND s.id = x.sandbox AND s.execution = @execution::text AND s.desired = 'running';

-- name: MoveSessions :exec
-- Sessions that were open in a snapshot go on in the execution that was loaded from it, also those that have ended since.
UPDATE sessions x SET execution = @execution::text, ended_at = NULL, exit_code = NULL, exit_signal = '', exit_error = '', timed_out = false, stopped = false,
    lost = false, output_bytes = 0
FROM executions e WHERE x.id = ANY(@sessions::text[]) AND e.id = @execution::text AND x.sandbox = e.sandbox AND x.started_at IS NOT NULL;

-- name: CopySessions :exec
-- Sessions that were open in a snapshot of another sandbox of the project go on as copies. What they were started with isn't needed any more.
INSERT INTO sessions (id, sandbox, argv, cwd, run_as, open_stdin, tty_rows, tty_cols, timeout_seconds, execution, started_at)
SELECT r.id, e.sandbox, x.argv, x.cwd, x.run_as, x.open_stdin, x.tty_rows, x.tty_cols, x.timeout_seconds, e.id, now()
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@originals::text[]) AS original) r
JOIN executions e ON e.id = @execution::text
JOIN sandboxes s ON s.id = e.sandbox
JOIN sessions x ON x.id = r.original
JOIN sandboxes o ON o.id = x.sandbox AND o.project = s.project
ON CONFLICT (id) DO NOTHING;

-- name: EndSession :exec
-- Only a session of one of the node's executions, and only once: what is told again is what was told.
UPDATE sessions x SET ended_at = @ended_at::timestamptz, exit_code = sqlc.narg('exit_code')::integer, exit_signal = @exit_signal, exit_error = @exit_error,
    timed_out = @timed_out, stopped = @stopped, lost = @lost, output_bytes = @output_bytes
FROM executions e WHERE x.id = @id AND e.id = x.execution AND e.node = @node AND x.ended_at IS NULL;
