-- name: InsertUpload :exec
INSERT INTO uploads (id, project, node, token_hash, sha256, expires_at) VALUES (@id, @project, @node, @token_hash, @sha256, now() + @life::interval);

-- name: LockUploads :exec
SELECT pg_advisory_xact_lock(hashtextextended('uploads/' || @project::text, 0));

-- name: CountUploads :one
SELECT count(*) FROM uploads WHERE project = @project AND created_at > now() - @kept::interval;

-- name: Upload :one
SELECT u.id, u.project, u.node, u.token_hash, u.sha256, u.expires_at, (u.expires_at <= now())::boolean AS expired, p.quota_disk_bytes
FROM uploads u JOIN projects p ON p.id = u.project WHERE u.id = @id;

-- name: HoldUploads :many
-- Keeps a project's uploads from being pruned until the end of the transaction.
SELECT id, sha256 FROM uploads WHERE project = @project AND id = ANY(@ids::text[]) AND created_at > now() - @kept::interval FOR KEY SHARE;

-- name: InsertTemplateUploads :exec
INSERT INTO template_uploads (template, upload) SELECT @template, unnest(@uploads::text[]);
