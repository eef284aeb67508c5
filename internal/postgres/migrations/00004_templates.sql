-- Templates from any source: versions of a name, tags, aliases, what a build is made of, its log, and the uploads that it uses.

-- +goose Up

-- A template is one version of its name, and what it's made of never changes.
ALTER TABLE templates
    ADD COLUMN build        jsonb, -- what it's made of, as a whole
    ADD COLUMN content_hash bytea CHECK (octet_length(content_hash) = 32), -- of what decides about its content: the same hash, the same template
    ADD COLUMN source       text NOT NULL DEFAULT '', -- for people
    ADD COLUMN base         text REFERENCES templates ON DELETE SET NULL, -- the template that it's built on
    ADD COLUMN wanted_tags  text[] NOT NULL DEFAULT '{}', -- which it takes when it is ready
    ADD COLUMN deleted_at   timestamptz;

UPDATE templates SET build = jsonb_build_object('source', jsonb_build_object('recipe', recipe)), source = 'recipe ' || recipe,
    content_hash = sha256(convert_to(format('{"build":{"source":{"recipe":"%s"}},"vcpus":%s,"memory_bytes":%s,"disk_bytes":%s}',
        recipe, vcpus, memory_bytes, disk_bytes), 'UTF8'));

ALTER TABLE templates
    ALTER COLUMN build SET NOT NULL,
    ALTER COLUMN content_hash SET NOT NULL,
    ALTER COLUMN source DROP DEFAULT,
    DROP COLUMN recipe,
    DROP CONSTRAINT templates_disk_bytes_check,
    ADD CONSTRAINT templates_disk_bytes_check CHECK (disk_bytes >= 0); -- 0: as large as the files need, and a half more
DROP INDEX templates_name;
CREATE INDEX templates_versions ON templates (project, name, created_at DESC);
CREATE INDEX templates_base ON templates (base);
CREATE INDEX templates_node ON templates (node) WHERE superseded_at IS NULL AND deleted_at IS NULL;

-- What a name means: the version that was ready last, or the one that is built first. Names move with the operations: when a build is
-- ordered, and when it is ready.
CREATE TABLE template_names (
    project  text NOT NULL REFERENCES projects,
    name     text NOT NULL,
    template text NOT NULL REFERENCES templates ON DELETE CASCADE,
    PRIMARY KEY (project, name)
);
CREATE INDEX template_names_template ON template_names (template);
INSERT INTO template_names (project, name, template) SELECT project, name, id FROM templates WHERE superseded_at IS NULL;

-- Another name for a name: it means what that means.
CREATE TABLE template_aliases (
    project text NOT NULL REFERENCES projects,
    alias   text NOT NULL,
    name    text NOT NULL,
    PRIMARY KEY (project, alias)
);
CREATE INDEX template_aliases_name ON template_aliases (project, name);

-- What NAME:TAG means.
CREATE TABLE template_tags (
    project  text NOT NULL REFERENCES projects,
    name     text NOT NULL,
    tag      text NOT NULL,
    template text NOT NULL REFERENCES templates ON DELETE CASCADE,
    PRIMARY KEY (project, name, tag)
);
CREATE INDEX template_tags_template ON template_tags (template);

ALTER TABLE template_status
    ADD COLUMN failed_step integer NOT NULL DEFAULT 0 CHECK (failed_step >= 0), -- of a failed build, from 1; 0 for the source
    ADD COLUMN env         jsonb NOT NULL DEFAULT '{}', -- what it sets for sessions, when ready
    ADD COLUMN run_as      text NOT NULL DEFAULT '',
    ADD COLUMN workdir     text NOT NULL DEFAULT '',
    ADD COLUMN ready_at    timestamptz; -- when it was ready first
-- An empty digest lets the next report be written anew, with what the template sets for sessions.
UPDATE template_status SET ready_at = observed_at, digest = '' WHERE state = 'ready';

-- A template that its node builds anew by itself gets an operation for that: only one runs at a time.
DROP INDEX operations_template;
CREATE INDEX operations_template ON operations (template, created_at DESC) WHERE template IS NOT NULL;
CREATE UNIQUE INDEX operations_build ON operations (template) WHERE template IS NOT NULL AND status = 'running';

-- The log of a template's newest build. Its node counts the lines of each build from 1; those that are kept go on counting over all builds.
CREATE TABLE template_logs (
    template  text PRIMARY KEY REFERENCES templates ON DELETE CASCADE,
    before    bigint NOT NULL CHECK (before >= 0), -- lines of earlier builds
    newest    bigint NOT NULL CHECK (newest >= 0), -- as the node counts
    newest_at timestamptz NOT NULL -- by the node's clock
);
CREATE TABLE template_log_lines (
    template text NOT NULL REFERENCES template_logs ON DELETE CASCADE,
    number   bigint NOT NULL CHECK (number > 0),
    at       timestamptz NOT NULL,
    step     integer NOT NULL CHECK (step >= 0),
    line     text NOT NULL,
    PRIMARY KEY (template, number)
);

-- Bytes that a client brings to a node for a build. The token is never stored: only its SHA-256.
CREATE TABLE uploads (
    id         text PRIMARY KEY,
    project    text NOT NULL REFERENCES projects,
    node       text NOT NULL CHECK (node <> ''),
    token_hash bytea NOT NULL CHECK (octet_length(token_hash) = 32),
    sha256     text NOT NULL CHECK (sha256 ~ '^([0-9a-f]{64})?$'), -- empty: whatever it is
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX uploads_project ON uploads (project, created_at);
CREATE INDEX uploads_created ON uploads (created_at);
CREATE TABLE template_uploads (
    template text NOT NULL REFERENCES templates ON DELETE CASCADE,
    upload   text NOT NULL REFERENCES uploads ON DELETE CASCADE,
    PRIMARY KEY (template, upload)
);
CREATE INDEX template_uploads_upload ON template_uploads (upload);
