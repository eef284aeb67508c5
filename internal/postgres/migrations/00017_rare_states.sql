-- Lists of sandboxes by a state that few have.

-- +goose Up

CREATE INDEX execution_status_rare ON execution_status (state) WHERE state IN ('failed', 'lost');

-- The way from an execution to its sandbox, for these and for who deletes an execution.
CREATE INDEX sandboxes_execution ON sandboxes (execution);
