-- The control plane's first schema. Desired and actual state have different owners and different tables: what ends in _status is
-- written by the node's synchronization alone, everything else by the use cases alone. Words in check constraints are the vocabulary's.

-- +goose Up

CREATE TABLE orgs (
    id         text PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE projects (
    id         text PRIMARY KEY,
    org        text NOT NULL REFERENCES orgs,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (org, name)
);

-- A key is never stored: only its visible prefix and the SHA-256 of the whole.
CREATE TABLE api_keys (
    id           text PRIMARY KEY,
    project      text NOT NULL REFERENCES projects,
    name         text NOT NULL,
    prefix       text NOT NULL UNIQUE,
    secret_hash  bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    revoked_at   timestamptz,
    last_used_at timestamptz -- coarse: within the hour
);

-- A node registers itself with its first Synchronize, which is the only writer.
CREATE TABLE nodes (
    name            text PRIMARY KEY,
    driver          text NOT NULL,
    acceleration    text NOT NULL,
    cpus            integer NOT NULL CHECK (cpus >= 0),
    memory_bytes    bigint NOT NULL CHECK (memory_bytes >= 0),
    version         text NOT NULL,
    registered_at   timestamptz NOT NULL DEFAULT now(),
    synchronized_at timestamptz NOT NULL DEFAULT now() -- coarse: within half a minute
);

CREATE TABLE templates (
    id            text PRIMARY KEY,
    project       text NOT NULL REFERENCES projects,
    name          text NOT NULL,
    recipe        text NOT NULL,
    node          text NOT NULL,
    vcpus         integer NOT NULL CHECK (vcpus > 0),
    memory_bytes  bigint NOT NULL CHECK (memory_bytes > 0),
    disk_bytes    bigint NOT NULL CHECK (disk_bytes > 0),
    created_at    timestamptz NOT NULL DEFAULT now(),
    superseded_at timestamptz -- its build failed and another template has taken the name
);
CREATE UNIQUE INDEX templates_name ON templates (project, name) WHERE superseded_at IS NULL;

CREATE TABLE template_status (
    template      text PRIMARY KEY REFERENCES templates ON DELETE CASCADE,
    state         text NOT NULL CHECK (state IN ('building', 'ready', 'failed')),
    vcpus         integer NOT NULL CHECK (vcpus >= 0), -- of the base snapshot; 0 until it is ready
    memory_bytes  bigint NOT NULL CHECK (memory_bytes >= 0),
    disk_bytes    bigint NOT NULL CHECK (disk_bytes >= 0),
    digest        text NOT NULL,
    progress      text NOT NULL,
    error_code    text,
    error_message text,
    observed_at   timestamptz NOT NULL DEFAULT now(),
    CHECK ((state = 'failed') = (error_code IS NOT NULL)),
    CHECK ((error_code IS NULL) = (error_message IS NULL))
);

CREATE TABLE sandboxes (
    id           text PRIMARY KEY,
    project      text NOT NULL REFERENCES projects,
    template     text NOT NULL REFERENCES templates,
    desired      text NOT NULL CHECK (desired IN ('running', 'deleted')),
    revision     bigint NOT NULL DEFAULT 1 CHECK (revision > 0), -- grows with each change of what is desired
    execution    text NOT NULL, -- the current one
    vcpus        integer NOT NULL CHECK (vcpus > 0),
    memory_bytes bigint NOT NULL CHECK (memory_bytes > 0),
    disk_bytes   bigint NOT NULL CHECK (disk_bytes > 0),
    metadata     jsonb NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sandboxes_newest ON sandboxes (project, created_at DESC, id DESC);
CREATE INDEX sandboxes_template ON sandboxes (template);

-- The identity of an incarnation: its whole route. A row never changes.
CREATE TABLE executions (
    id             text PRIMARY KEY,
    sandbox        text NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
    epoch          bigint NOT NULL CHECK (epoch > 0),
    placement_kind text NOT NULL CHECK (placement_kind IN ('node', 'pod')),
    node           text NOT NULL CHECK (node <> ''),
    pod_uid        text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (sandbox, epoch),
    CHECK ((placement_kind = 'pod') = (pod_uid <> ''))
);
CREATE INDEX executions_node ON executions (node);
ALTER TABLE sandboxes ADD FOREIGN KEY (execution) REFERENCES executions DEFERRABLE INITIALLY DEFERRED;

-- What the node observed last. No row: pending.
CREATE TABLE execution_status (
    execution     text PRIMARY KEY REFERENCES executions ON DELETE CASCADE,
    state         text NOT NULL CHECK (state IN ('running', 'failed', 'lost', 'gone')),
    error_code    text,
    error_message text,
    since         timestamptz NOT NULL, -- by the node's clock
    observed_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (state NOT IN ('failed', 'lost') OR error_code IS NOT NULL),
    CHECK ((error_code IS NULL) = (error_message IS NULL))
);
CREATE INDEX execution_status_gone ON execution_status (observed_at) WHERE state = 'gone';

CREATE TABLE operations (
    id            text PRIMARY KEY,
    project       text NOT NULL REFERENCES projects,
    kind          text NOT NULL CHECK (kind IN ('create_sandbox', 'delete_sandbox', 'build_template')),
    status        text NOT NULL CHECK (status IN ('running', 'succeeded', 'failed')),
    sandbox       text REFERENCES sandboxes ON DELETE CASCADE,
    template      text REFERENCES templates ON DELETE CASCADE,
    error_code    text,
    error_message text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,
    CHECK ((kind = 'build_template') = (template IS NOT NULL)),
    CHECK ((kind = 'build_template') = (sandbox IS NULL)),
    CHECK ((status = 'running') = (ended_at IS NULL)),
    CHECK ((status = 'failed') = (error_code IS NOT NULL)),
    CHECK ((error_code IS NULL) = (error_message IS NULL))
);
CREATE UNIQUE INDEX operations_sandbox ON operations (sandbox, kind) WHERE kind IN ('create_sandbox', 'delete_sandbox');
CREATE UNIQUE INDEX operations_template ON operations (template) WHERE template IS NOT NULL;

-- A session runs in one execution, which its first attach fixes.
CREATE TABLE sessions (
    id         text PRIMARY KEY,
    sandbox    text NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
    argv       text[] NOT NULL CHECK (cardinality(argv) > 0),
    cwd        text NOT NULL,
    env        jsonb NOT NULL,
    run_as     text NOT NULL,
    stdin      bytea NOT NULL CHECK (octet_length(stdin) <= 1048576),
    execution  text REFERENCES executions ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    CHECK ((execution IS NULL) = (started_at IS NULL))
);
CREATE INDEX sessions_sandbox ON sessions (sandbox);
CREATE INDEX sessions_execution ON sessions (execution);

-- A token is never stored: only its SHA-256.
CREATE TABLE attachments (
    token_hash bytea PRIMARY KEY CHECK (octet_length(token_hash) = 32),
    session    text NOT NULL REFERENCES sessions ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);
CREATE INDEX attachments_session ON attachments (session);
CREATE INDEX attachments_expires ON attachments (expires_at);

-- What a request with an Idempotency-Key made: an operation or a session.
CREATE TABLE idempotency_keys (
    project      text NOT NULL REFERENCES projects,
    key          text NOT NULL,
    request_hash bytea NOT NULL CHECK (octet_length(request_hash) = 32),
    resource     text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project, key)
);
CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
