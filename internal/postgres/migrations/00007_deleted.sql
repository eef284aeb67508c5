-- When a sandbox's last execution was gone. Deleted sandboxes are kept for a day, and soon are most of the table: what is asked all the time
-- leaves them aside by their index. The node's synchronization writes it, where it ends the delete.

-- +goose Up

ALTER TABLE sandboxes
    ADD COLUMN deleted_at timestamptz,
    ADD CHECK (deleted_at IS NULL OR desired = 'deleted');
UPDATE sandboxes s SET deleted_at = st.observed_at FROM execution_status st
WHERE st.execution = s.execution AND st.state = 'gone' AND s.desired = 'deleted' AND NOT EXISTS (
    SELECT 1 FROM operations o WHERE o.sandbox = s.id AND o.status = 'running');

CREATE INDEX sandboxes_living ON sandboxes (project, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sandboxes_deleted ON sandboxes (deleted_at) WHERE deleted_at IS NOT NULL;
DROP INDEX execution_status_gone;
