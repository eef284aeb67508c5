-- A sandbox's past is in snapshots, each an object of its own: what is paused, suspended, restored, forked or rolled back is told by which snapshot an
-- execution is loaded from, and which one holds it.

-- +goose Up

-- What was asked for. A row never changes but for its end. One with a name outlives its sandbox: hence no foreign key, and the whole route.
CREATE TABLE snapshots (
    id             text PRIMARY KEY,
    project        text NOT NULL REFERENCES projects,
    sandbox        text NOT NULL,
    execution      text NOT NULL,
    epoch          bigint NOT NULL CHECK (epoch > 0),
    placement_kind text NOT NULL CHECK (placement_kind IN ('node', 'pod')),
    node           text NOT NULL CHECK (node <> ''),
    pod_uid        text NOT NULL,
    template       text NOT NULL REFERENCES templates,
    kind           text NOT NULL CHECK (kind IN ('disk', 'full')),
    purpose        text NOT NULL CHECK (purpose IN ('asked', 'suspend', 'fork', 'rolling')),
    name           text NOT NULL, -- empty: it goes with its sandbox
    vcpus          integer NOT NULL CHECK (vcpus > 0),
    memory_bytes   bigint NOT NULL CHECK (memory_bytes > 0),
    disk_bytes     bigint NOT NULL CHECK (disk_bytes > 0),
    created_at     timestamptz NOT NULL DEFAULT now(),
    deleted_at     timestamptz, -- it is to go
    gone_at        timestamptz, -- nothing is left of it; written by the node's synchronization alone
    CHECK ((placement_kind = 'pod') = (pod_uid <> '')),
    CHECK (name = '' OR purpose = 'asked')
);
CREATE INDEX snapshots_living ON snapshots (node, created_at, id) WHERE gone_at IS NULL;
CREATE INDEX snapshots_sandbox ON snapshots (sandbox, created_at DESC, id DESC);
CREATE INDEX snapshots_newest ON snapshots (project, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX snapshots_template ON snapshots (template);
CREATE INDEX snapshots_gone ON snapshots (gone_at) WHERE gone_at IS NOT NULL;

-- What the node observed last. No row: nothing yet.
CREATE TABLE snapshot_status (
    snapshot      text PRIMARY KEY REFERENCES snapshots ON DELETE CASCADE,
    state         text NOT NULL CHECK (state IN ('making', 'ready', 'failed', 'lost', 'gone')),
    error_code    text,
    error_message text,
    taken_at      timestamptz, -- when the sandbox stood still for it, by the node's clock
    pause_micros  bigint NOT NULL DEFAULT 0 CHECK (pause_micros >= 0),
    bytes         bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0), -- that it counts in the quota
    digest        text NOT NULL DEFAULT '', -- of its manifest; it never changes once it's known
    parent        text NOT NULL DEFAULT '',
    driver        text NOT NULL DEFAULT '',
    version       text NOT NULL DEFAULT '',
    cpu           text NOT NULL DEFAULT '',
    observed_at   timestamptz NOT NULL DEFAULT now(),
    CHECK (state NOT IN ('failed', 'lost') OR error_code IS NOT NULL),
    CHECK (state <> 'ready' OR digest <> '' AND taken_at IS NOT NULL),
    CHECK ((error_code IS NULL) = (error_message IS NULL))
);

ALTER TABLE sandboxes
    DROP CONSTRAINT sandboxes_desired_check,
    ADD CONSTRAINT sandboxes_desired_check CHECK (desired IN ('running', 'paused', 'suspended', 'stopped', 'deleted')),
    ADD COLUMN suspend_into    text, -- the snapshot of the newest suspend
    ADD COLUMN parent_sandbox  text, -- of whose snapshot it was made; null: of a template
    ADD COLUMN parent_snapshot text,
    ADD CHECK ((parent_sandbox IS NULL) = (parent_snapshot IS NULL)),
    ADD CHECK (desired <> 'suspended' OR suspend_into IS NOT NULL);
CREATE INDEX sandboxes_parent ON sandboxes (parent_sandbox) WHERE parent_sandbox IS NOT NULL;

-- The snapshot that an execution is loaded from, and whose place it takes. That one stays as it is until this one has run.
ALTER TABLE executions
    ADD COLUMN snapshot text,
    ADD COLUMN cold     boolean NOT NULL DEFAULT false, -- it boots from the snapshot's disk, though there may be memory
    ADD COLUMN replaces text REFERENCES executions DEFERRABLE INITIALLY DEFERRED,
    ADD CHECK (disk_of IS NULL OR snapshot IS NULL),
    ADD CHECK (snapshot IS NOT NULL OR replaces IS NULL AND NOT cold);
CREATE INDEX executions_replaces ON executions (replaces) WHERE replaces IS NOT NULL;
CREATE INDEX executions_snapshot ON executions (snapshot) WHERE snapshot IS NOT NULL;

ALTER TABLE execution_status
    DROP CONSTRAINT execution_status_state_check,
    ADD CONSTRAINT execution_status_state_check CHECK (state IN ('running', 'paused', 'failed', 'suspended', 'stopped', 'lost', 'gone')),
    ADD COLUMN snapshot text, -- that holds a suspended one
    ADD CHECK (state <> 'suspended' OR snapshot IS NOT NULL);

ALTER TABLE operations
    DROP CONSTRAINT operations_kind_check,
    ADD CONSTRAINT operations_kind_check CHECK (kind IN ('create_sandbox', 'delete_sandbox', 'stop_sandbox', 'start_sandbox', 'pause_sandbox',
        'resume_sandbox', 'suspend_sandbox', 'restore_sandbox', 'fork_sandbox', 'snapshot_sandbox', 'rollback_sandbox', 'build_template')),
    ADD COLUMN snapshot text, -- that it makes, or loads
    ADD COLUMN part_of  text REFERENCES operations ON DELETE SET NULL; -- of a fork's child: the fork, which ends with the last of them
CREATE INDEX operations_part_of ON operations (part_of) WHERE part_of IS NOT NULL;

ALTER TABLE events
    DROP CONSTRAINT events_type_check,
    ADD CONSTRAINT events_type_check CHECK (type IN ('sandbox.created', 'sandbox.running', 'sandbox.failed', 'sandbox.lost', 'sandbox.stopped',
        'sandbox.started', 'sandbox.paused', 'sandbox.resumed', 'sandbox.suspended', 'sandbox.restored', 'sandbox.updated', 'sandbox.deleted',
        'snapshot.ready', 'snapshot.failed', 'snapshot.lost', 'snapshot.deleted', 'template.created', 'template.ready', 'template.failed',
        'template.deleted', 'key.created', 'key.revoked'));

-- What needs a snapshot, and must not see it go: a suspended execution, one that is still to be loaded from it, an operation that makes or loads it.
CREATE INDEX execution_status_snapshot ON execution_status (snapshot) WHERE snapshot IS NOT NULL;
CREATE INDEX operations_snapshot ON operations (snapshot) WHERE snapshot IS NOT NULL;
CREATE VIEW snapshots_in_use AS
SELECT st.snapshot, s.id AS sandbox
FROM execution_status st JOIN executions e ON e.id = st.execution JOIN sandboxes s ON s.id = e.sandbox
WHERE st.snapshot IS NOT NULL AND st.state = 'suspended' AND s.desired <> 'deleted'
UNION
SELECT e.snapshot, s.id
FROM executions e JOIN sandboxes s ON s.id = e.sandbox LEFT JOIN execution_status st ON st.execution = e.id
WHERE e.snapshot IS NOT NULL AND st.state IS NULL AND s.desired <> 'deleted'
UNION
SELECT o.snapshot, o.sandbox FROM operations o WHERE o.snapshot IS NOT NULL AND o.status = 'running';

-- A paused sandbox keeps its memory and uses no processor; a suspended or stopped one has neither. Snapshots count with what they take.
DROP VIEW project_usage;
CREATE VIEW project_usage AS
SELECT p.id AS project, b.sandboxes, b.vcpus, b.memory_bytes, (b.disk_bytes + t.disk_bytes + n.bytes)::bigint AS disk_bytes
FROM projects p
CROSS JOIN LATERAL (
    SELECT count(*)::bigint AS sandboxes,
        coalesce(sum(s.vcpus) FILTER (WHERE s.desired = 'running'), 0)::bigint AS vcpus,
        coalesce(sum(s.memory_bytes) FILTER (WHERE s.desired IN ('running', 'paused')), 0)::bigint AS memory_bytes,
        coalesce(sum(s.disk_bytes), 0)::bigint AS disk_bytes
    FROM sandboxes s WHERE s.project = p.id AND s.desired <> 'deleted' AND s.deleted_at IS NULL -- the latter for the index
) b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(greatest(x.disk_bytes, coalesce(st.disk_bytes, 0), 67108864)), 0)::bigint AS disk_bytes
    FROM templates x LEFT JOIN template_status st ON st.template = x.id
    WHERE x.project = p.id AND x.superseded_at IS NULL AND x.deleted_at IS NULL AND coalesce(st.state, 'building') <> 'failed'
) t
CROSS JOIN LATERAL (
    SELECT coalesce(sum(st.bytes), 0)::bigint AS bytes
    FROM snapshots x JOIN snapshot_status st ON st.snapshot = x.id WHERE x.project = p.id AND x.deleted_at IS NULL
) n;
