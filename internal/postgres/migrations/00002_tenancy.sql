-- Tenancy: users and roles, keys that expire, quotas, and what happened as a table of events. Whoever changes who may do what in an
-- organisation holds its row; whoever makes something that counts towards a quota holds the project's.

-- +goose Up

ALTER TABLE projects
    ADD COLUMN quota_sandboxes bigint CHECK (quota_sandboxes >= 0), -- of all four: null is unlimited
    ADD COLUMN quota_vcpus bigint CHECK (quota_vcpus >= 0),
    ADD COLUMN quota_memory_bytes bigint CHECK (quota_memory_bytes >= 0),
    ADD COLUMN quota_disk_bytes bigint CHECK (quota_disk_bytes >= 0),
    ADD COLUMN events_pruned bigint NOT NULL DEFAULT 0, -- the greatest number of its events that are no longer kept
    ADD COLUMN deleted_at timestamptz;
ALTER TABLE projects DROP CONSTRAINT projects_org_name_key;
CREATE UNIQUE INDEX projects_name ON projects (org, name) WHERE deleted_at IS NULL;
CREATE INDEX projects_newest ON projects (org, created_at DESC, id DESC);

CREATE TABLE users (
    id         text PRIMARY KEY,
    org        text NOT NULL REFERENCES orgs,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
    created_at timestamptz NOT NULL DEFAULT now(),
    removed_at timestamptz
);
CREATE UNIQUE INDEX users_name ON users (org, name) WHERE removed_at IS NULL;
CREATE INDEX users_newest ON users (org, created_at DESC, id DESC);

-- The keys that exist were made by root for the operator.
ALTER TABLE api_keys
    ADD COLUMN role text NOT NULL DEFAULT 'owner' CHECK (role IN ('owner', 'admin', 'developer', 'viewer')),
    ADD COLUMN holder text REFERENCES users, -- the user whose key it is; null: nobody's, for machines
    ADD COLUMN expires_at timestamptz;
ALTER TABLE api_keys ALTER COLUMN role DROP DEFAULT;
ALTER TABLE api_keys DROP CONSTRAINT api_keys_prefix_key;
CREATE UNIQUE INDEX api_keys_secret ON api_keys (secret_hash);
CREATE INDEX api_keys_newest ON api_keys (project, created_at DESC, id DESC);
CREATE INDEX api_keys_holder ON api_keys (holder) WHERE holder IS NOT NULL;

-- What happened, written in the transaction that made it happen. The number is what readers go by: it's given after the commit, by one
-- at a time, so that a greater number is never seen before a lesser one. The identity can't do that: it's given before the commit.
CREATE TABLE events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    number    bigint UNIQUE,
    project   text NOT NULL REFERENCES projects,
    type      text NOT NULL CHECK (type IN ('sandbox.created', 'sandbox.running', 'sandbox.failed', 'sandbox.lost', 'sandbox.stopped',
        'sandbox.started', 'sandbox.updated', 'sandbox.deleted', 'template.created', 'template.ready', 'template.failed', 'template.deleted',
        'key.created', 'key.revoked')),
    sandbox   text, -- no foreign keys: an event outlives what it is about
    template  text,
    operation text,
    key       text,
    data      jsonb NOT NULL,
    at        timestamptz NOT NULL DEFAULT now()
);
CREATE SEQUENCE event_numbers OWNED BY events.number;
CREATE INDEX events_unnumbered ON events (id) WHERE number IS NULL;
CREATE INDEX events_project ON events (project, number);
CREATE INDEX events_sandbox ON events (sandbox, number) WHERE sandbox IS NOT NULL;
CREATE INDEX events_at ON events (at);

CREATE INDEX sandboxes_metadata ON sandboxes USING gin (metadata jsonb_path_ops);
CREATE INDEX templates_newest ON templates (project, created_at DESC, id DESC);
