-- name: InsertUpload :exec
INSERT INTO uploads (id, project, node, token_hash, sha256, expires_at) VALUES (@id, @project, @node, @token_hash, @sha256, now() + @life::interval);

-- name: LockUploads :exec
SELECT pg_advisory_xact_lock(hashtextextended('uploads/' || @project::text, 0));

-- name: CountUploads :one
SELECT count(*) FROM uploads WHERE project = @project AND created_at > now() - @kept::interval;

-- name: Upload :one
SELECT u.id, u.project, u.node, u.token_hash, u.sha256, u.expires_at, (u.expires_at <= now())::boolean AS expired,
    (u.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL)::boolean AS deleted,
    EXISTS (SELECT 1 FROM template_uploads x WHERE x.upload = u.id)::boolean AS named, p.quota_disk_bytes
FROM uploads u JOIN projects p ON p.id = u.project WHERE u.id = @id;

-- name: HoldUploads :many
-- Keeps a project's uploads from being pruned until the end of the transaction.
SELECT id, sha256 FROM uploads WHERE project = @project AND id = ANY(@ids::text[]) AND deleted_at IS NULL AND created_at > now() - @kept::interval FOR KEY SHARE;

-- name: InsertTemplateUploads :exec
INSERT INTO template_uploads (template, upload) SELECT @template, unnest(@uploads::text[]);

-- name: Uploads :many
-- Newest first, without those that are deleted.
SELECT u.id, u.sha256, u.bytes, u.created_at, (u.created_at + @kept::interval)::timestamptz AS usable_until,
    EXISTS (SELECT 1 FROM uploads_in_use x WHERE x.upload = u.id)::boolean AS in_use
FROM uploads u
WHERE u.project = @project AND u.deleted_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (u.created_at, u.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY u.created_at DESC, u.id DESC
LIMIT @max_rows;

-- name: LockUpload :one
-- Waits for transactions that hold it for a build, and keeps new ones from doing so.
SELECT node, (deleted_at IS NOT NULL)::boolean AS deleted FROM uploads WHERE project = @project AND id = @id FOR UPDATE;

-- name: UploadInUse :one
SELECT EXISTS (SELECT 1 FROM uploads_in_use WHERE upload = @id)::boolean;

-- name: MarkUploadDeleted :exec
UPDATE uploads SET deleted_at = now() WHERE id = @id;

-- name: NodeUploads :many
-- Without those of projects that are deleted: the node removes what nobody names.
SELECT u.id, u.bytes FROM uploads u JOIN projects p ON p.id = u.project WHERE u.node = @node AND u.deleted_at IS NULL AND p.deleted_at IS NULL;

-- name: SeeUploads :exec
UPDATE uploads u SET bytes = r.bytes
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@sizes::bigint[]) AS bytes) r
WHERE u.id = r.id AND u.node = @node;
