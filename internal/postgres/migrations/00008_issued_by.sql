-- An attachment that was issued to the holder of a sandbox token ends with that token, not with its own time alone.

-- +goose Up

ALTER TABLE attachments ADD COLUMN issued_by text REFERENCES sandbox_tokens ON DELETE CASCADE; -- null: an API key
CREATE INDEX attachments_issued_by ON attachments (issued_by) WHERE issued_by IS NOT NULL;

-- A deadline of what is to go means nothing, and would be in the way of the others.
UPDATE sandboxes SET expires_at = NULL, on_expiry = NULL WHERE desired = 'deleted';
ALTER TABLE sandboxes ADD CHECK (expires_at IS NULL OR desired <> 'deleted');
