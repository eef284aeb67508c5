-- What a project's uploads have, and the deletion of one.

-- +goose Up

ALTER TABLE uploads
    ADD COLUMN bytes      bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0), -- that its node has, as that reports
    ADD COLUMN deleted_at timestamptz;                                  -- it's there no more: its node is told to remove it
CREATE INDEX uploads_node ON uploads (node) WHERE deleted_at IS NULL;

-- The uploads that builds use which haven't ended.
CREATE VIEW uploads_in_use AS
SELECT DISTINCT x.upload
FROM template_uploads x JOIN templates t ON t.id = x.template LEFT JOIN template_status st ON st.template = t.id
WHERE t.superseded_at IS NULL AND t.deleted_at IS NULL AND coalesce(st.state, 'building') = 'building';
