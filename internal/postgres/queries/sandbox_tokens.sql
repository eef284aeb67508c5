-- name: CountSandboxTokens :one
-- Those that are valid.
SELECT count(*) FROM sandbox_tokens WHERE sandbox = @sandbox AND revoked_at IS NULL AND expires_at > now();

-- name: InsertSandboxToken :exec
INSERT INTO sandbox_tokens (id, sandbox, name, token_hash, expires_at) VALUES (@id, @sandbox, @name, @token_hash, now() + @life::interval);

-- name: SandboxToken :one
SELECT k.id, k.sandbox, k.name, k.created_at, k.expires_at
FROM sandbox_tokens k JOIN sandboxes s ON s.id = k.sandbox
WHERE s.project = @project AND k.sandbox = @sandbox AND k.id = @id;

-- name: SandboxTokens :many
-- Those that are valid, newest first. The caller has checked that the sandbox is the project's.
SELECT id, sandbox, name, created_at, expires_at FROM sandbox_tokens
WHERE sandbox = @sandbox AND revoked_at IS NULL AND expires_at > now()
ORDER BY created_at DESC, id DESC LIMIT @max_rows;

-- name: RevokeSandboxToken :execrows
-- One that is revoked keeps its time.
UPDATE sandbox_tokens k SET revoked_at = coalesce(k.revoked_at, now()) FROM sandboxes s
WHERE s.id = k.sandbox AND s.project = @project AND k.sandbox = @sandbox AND k.id = @id;

-- name: SandboxTokenByHash :one
SELECT k.id, k.sandbox, s.project, (k.expires_at <= now())::boolean AS expired, (k.revoked_at IS NOT NULL)::boolean AS revoked
FROM sandbox_tokens k JOIN sandboxes s ON s.id = k.sandbox WHERE k.token_hash = @token_hash;

-- name: EndedTokens :many
-- Those, of sandboxes and of sessions, that were revoked or have expired. An attachment's own time isn't its end.
SELECT k.token_hash, (k.revoked_at IS NOT NULL)::boolean AS revoked FROM sandbox_tokens k
WHERE k.token_hash = ANY(@hashes::bytea[]) AND (k.revoked_at IS NOT NULL OR k.expires_at <= now())
UNION ALL
SELECT a.token_hash, (a.revoked_at IS NOT NULL OR k.revoked_at IS NOT NULL)::boolean AS revoked FROM attachments a LEFT JOIN sandbox_tokens k ON k.id = a.issued_by
WHERE a.token_hash = ANY(@hashes::bytea[]) AND (a.revoked_at IS NOT NULL OR k.revoked_at IS NOT NULL OR k.expires_at <= now());

-- name: SandboxTokenTarget :one
-- What a sandbox token opens, and one session of the sandbox if there is one of that id; see AttachmentTarget.
SELECT (k.expires_at <= now())::boolean AS expired, (k.revoked_at IS NOT NULL)::boolean AS revoked,
    x.id AS session, x.argv, x.cwd, x.run_as, x.secret_sealed, x.open_stdin, x.tty_rows, x.tty_cols, x.timeout_seconds, x.execution AS session_execution, (x.ended_at IS NOT NULL)::boolean AS session_ended,
    s.id AS sandbox, s.project, s.auto_wake, s.desired, e.id AS execution, e.epoch, e.placement_kind, e.node, e.pod_uid, e.disk_of, e.snapshot, st.state, st.error_code, st.error_message
FROM sandbox_tokens k
JOIN sandboxes s ON s.id = k.sandbox
JOIN executions e ON e.id = s.execution
LEFT JOIN execution_status st ON st.execution = e.id
LEFT JOIN sessions x ON x.sandbox = s.id AND x.id = @session
WHERE k.token_hash = @token_hash;

-- name: SandboxProject :one
-- For who has shown a token or a signature of it: its project.
SELECT project FROM sandboxes WHERE id = @id;

-- name: PruneSandboxTokens :execrows
DELETE FROM sandbox_tokens WHERE id IN (
    SELECT k.id FROM sandbox_tokens k WHERE k.expires_at < now() - @kept::interval LIMIT @max_rows
);
