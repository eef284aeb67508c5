-- A stop gives the sandbox's processes some time between SIGTERM and SIGKILL.

-- +goose Up

ALTER TABLE sandboxes ADD COLUMN stop_grace_millis integer NOT NULL DEFAULT 10000 CHECK (stop_grace_millis BETWEEN 0 AND 300000); -- of the newest stop
