-- name: InsertSession :exec
INSERT INTO sessions (id, sandbox, argv, cwd, env, run_as, stdin) VALUES (@id, @sandbox, @argv, @cwd, @env, @run_as, @stdin);

-- name: InsertAttachment :exec
INSERT INTO attachments (token_hash, session, expires_at) VALUES (@token_hash, @session, now() + @life::interval);

-- name: CountSessions :one
SELECT count(*) FROM sessions WHERE sandbox = @sandbox;

-- name: Session :one
-- Without its environment and stdin, which only the attach needs.
SELECT x.id, x.sandbox, x.argv, x.cwd, x.run_as, x.execution, x.created_at, x.started_at
FROM sessions x JOIN sandboxes s ON s.id = x.sandbox
WHERE s.project = @project AND x.sandbox = @sandbox AND x.id = @id;

-- name: Attachment :one
SELECT session, expires_at FROM attachments WHERE token_hash = @token_hash;

-- name: AttachmentTarget :one
-- Everything that the resolution of a token is decided by, and the session to run.
SELECT a.token_hash, a.expires_at, (a.expires_at <= now())::boolean AS expired, (a.revoked_at IS NOT NULL)::boolean AS revoked,
    x.id AS session, x.argv, x.cwd, x.env, x.run_as, x.stdin, x.execution AS session_execution,
    s.id AS sandbox, s.desired, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid, st.state, st.error_code, st.error_message
FROM attachments a
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
