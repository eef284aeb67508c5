-- Sandboxes stop and start, end at a deadline, have an environment, and are opened by tokens and signed URLs of their own. What is
-- secret in a row is sealed (see the package envelope): a dump doesn't hold it.

-- +goose Up

ALTER TABLE sandboxes
    DROP CONSTRAINT sandboxes_desired_check,
    ADD CONSTRAINT sandboxes_desired_check CHECK (desired IN ('running', 'stopped', 'deleted')),
    ADD COLUMN env_sealed      bytea,       -- JSON; null: empty
    ADD COLUMN expires_at      timestamptz, -- null: it lives until it's deleted
    ADD COLUMN on_expiry       text CONSTRAINT sandboxes_on_expiry_check CHECK (on_expiry IN ('delete', 'stop')),
    ADD COLUMN file_key_sealed bytea,       -- signs file URLs; null: none was ever signed, or all were revoked
    ADD CHECK ((expires_at IS NULL) = (on_expiry IS NULL));
CREATE INDEX sandboxes_expiry ON sandboxes (expires_at, id) WHERE expires_at IS NOT NULL;

-- The execution from whose disk this one boots; null: it's made from the template. It keeps its disk until this one has run.
ALTER TABLE executions ADD COLUMN disk_of text REFERENCES executions DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX executions_disk_of ON executions (disk_of) WHERE disk_of IS NOT NULL;

ALTER TABLE execution_status
    DROP CONSTRAINT execution_status_state_check,
    ADD CONSTRAINT execution_status_state_check CHECK (state IN ('running', 'failed', 'stopped', 'lost', 'gone'));

ALTER TABLE operations
    DROP CONSTRAINT operations_kind_check,
    ADD CONSTRAINT operations_kind_check CHECK (kind IN ('create_sandbox', 'delete_sandbox', 'stop_sandbox', 'start_sandbox', 'build_template'));
-- A sandbox does one thing at a time. A delete ends what runs before it begins.
CREATE UNIQUE INDEX operations_running ON operations (sandbox) WHERE status = 'running' AND sandbox IS NOT NULL;
CREATE INDEX operations_of_sandbox ON operations (sandbox, created_at) WHERE sandbox IS NOT NULL;

-- What a session runs with is sealed from now on. One that was never attached to hasn't run: it goes, since SQL can't seal it.
DELETE FROM sessions WHERE execution IS NULL;
ALTER TABLE sessions
    DROP COLUMN env,
    DROP COLUMN stdin,
    ADD COLUMN secret_sealed   bytea, -- JSON of environment and stdin; null: neither
    ADD COLUMN open_stdin      boolean NOT NULL DEFAULT false,
    ADD COLUMN tty_rows        integer NOT NULL DEFAULT 0 CHECK (tty_rows BETWEEN 0 AND 1000),
    ADD COLUMN tty_cols        integer NOT NULL DEFAULT 0 CHECK (tty_cols BETWEEN 0 AND 1000),
    ADD COLUMN timeout_seconds integer NOT NULL DEFAULT 0 CHECK (timeout_seconds >= 0), -- 0: none
    ADD CHECK ((tty_rows = 0) = (tty_cols = 0));
DROP INDEX sessions_sandbox;
CREATE INDEX sessions_newest ON sessions (sandbox, created_at DESC, id DESC);

-- A sandbox token opens the data plane of its sandbox. It is never stored: only its SHA-256.
CREATE TABLE sandbox_tokens (
    id         text PRIMARY KEY,
    sandbox    text NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
    name       text NOT NULL,
    token_hash bytea NOT NULL UNIQUE CHECK (octet_length(token_hash) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX sandbox_tokens_newest ON sandbox_tokens (sandbox, created_at DESC, id DESC);
CREATE INDEX sandbox_tokens_expires ON sandbox_tokens (expires_at);
