-- How a session ended is known beside its execution, also when that is gone.

-- +goose Up
ALTER TABLE sessions
    ADD COLUMN ended_at     timestamptz, -- by the node's clock
    ADD COLUMN exit_code    integer,     -- of one that ended by itself
    ADD COLUMN exit_signal  text NOT NULL DEFAULT '',
    ADD COLUMN exit_error   text NOT NULL DEFAULT '', -- why it couldn't be started, or was lost
    ADD COLUMN timed_out    boolean NOT NULL DEFAULT false,
    ADD COLUMN stopped      boolean NOT NULL DEFAULT false,
    ADD COLUMN lost         boolean NOT NULL DEFAULT false,
    ADD COLUMN output_bytes bigint NOT NULL DEFAULT 0 CHECK (output_bytes >= 0),
    ADD CHECK (ended_at IS NULL OR started_at IS NOT NULL),
    ADD CHECK (ended_at IS NOT NULL OR exit_code IS NULL AND exit_signal = '' AND NOT lost);
