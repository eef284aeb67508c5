-- +goose Up
-- A fork needs its sandbox until the snapshot is ready; the children that are loaded from it then don't. An operation that has let go runs on beside others.
ALTER TABLE operations ADD COLUMN holds boolean NOT NULL DEFAULT true; -- its sandbox: no other operation of that begins
DROP INDEX operations_running;
CREATE UNIQUE INDEX operations_running ON operations (sandbox) WHERE status = 'running' AND sandbox IS NOT NULL AND holds;
