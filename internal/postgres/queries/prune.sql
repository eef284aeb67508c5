-- name: PruneIdempotencyKeys :execrows
DELETE FROM idempotency_keys k USING (
    SELECT c.project, c.key FROM idempotency_keys c WHERE c.created_at < now() - @kept::interval LIMIT @max_rows
) old WHERE k.project = old.project AND k.key = old.key;

-- name: PruneAttachments :execrows
-- One that a sandbox token has issued stays as long as that: a stream that it has opened ends with it.
DELETE FROM attachments WHERE token_hash IN (
    SELECT a.token_hash FROM attachments a WHERE a.expires_at < now() - @kept::interval AND a.issued_by IS NULL LIMIT @max_rows
);

-- name: PruneSandboxes :execrows
-- Its executions, sessions and operations go with it.
DELETE FROM sandboxes WHERE id IN (SELECT s.id FROM sandboxes s WHERE s.deleted_at < now() - @kept::interval LIMIT @max_rows);

-- name: PruneSnapshots :execrows
DELETE FROM snapshots WHERE id IN (SELECT n.id FROM snapshots n WHERE n.gone_at < now() - @kept::interval LIMIT @max_rows);

-- name: OldFailedTemplates :many
-- Those whose build failed, that were never ready and that nothing is made from.
SELECT t.id FROM templates t JOIN template_status st ON st.template = t.id
WHERE st.state = 'failed' AND st.ready_at IS NULL AND st.observed_at < now() - @kept::interval AND t.superseded_at IS NULL AND t.deleted_at IS NULL
    AND NOT EXISTS (SELECT 1 FROM sandboxes s WHERE s.template = t.id AND s.desired <> 'deleted')
    AND NOT EXISTS (SELECT 1 FROM snapshots n WHERE n.template = t.id AND n.deleted_at IS NULL)
LIMIT @max_rows FOR UPDATE OF t SKIP LOCKED;

-- name: PruneTemplates :execrows
-- Those that were deleted, or replaced after they failed, and that no sandbox's record names; all that belongs to them goes with them.
DELETE FROM templates WHERE id IN (
    SELECT t.id FROM templates t
    WHERE coalesce(t.deleted_at, t.superseded_at) < now() - @kept::interval AND NOT EXISTS (SELECT 1 FROM sandboxes s WHERE s.template = t.id)
        AND NOT EXISTS (SELECT 1 FROM snapshots n WHERE n.template = t.id)
    LIMIT @max_rows
);

-- name: PruneUploads :execrows
-- One that a build uses stays until that has ended.
DELETE FROM uploads WHERE id IN (
    SELECT u.id FROM uploads u
    WHERE u.created_at < now() - @kept::interval AND NOT EXISTS (SELECT 1 FROM uploads_in_use x WHERE x.upload = u.id)
    LIMIT @max_rows
);
