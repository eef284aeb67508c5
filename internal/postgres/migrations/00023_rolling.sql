-- When sandboxes took snapshots of themselves last, and when a suspend that has failed is tried again.

-- +goose Up

CREATE INDEX snapshots_rolling ON snapshots (sandbox, kind, created_at DESC) WHERE purpose = 'rolling';

-- Sandboxes that take snapshots of themselves, with the moments from which the next ones are counted: the last one's, whatever came of it, or the sandbox's creation.
CREATE VIEW rolling_sandboxes AS
SELECT s.id, s.project, s.desired, s.execution, s.rolling,
    coalesce((SELECT n.created_at FROM snapshots n WHERE n.sandbox = s.id AND n.purpose = 'rolling' AND n.kind = 'full' ORDER BY n.created_at DESC LIMIT 1), s.created_at) AS full_at,
    greatest((SELECT n.created_at FROM snapshots n WHERE n.sandbox = s.id AND n.purpose = 'rolling' AND n.kind = 'full' ORDER BY n.created_at DESC LIMIT 1),
        (SELECT n.created_at FROM snapshots n WHERE n.sandbox = s.id AND n.purpose = 'rolling' AND n.kind = 'disk' ORDER BY n.created_at DESC LIMIT 1), s.created_at) AS disk_at, -- a full one has the disk, too
    coalesce((SELECT n.deleted_at IS NULL AND n.gone_at IS NULL AND coalesce(st.state, 'making') = 'making' FROM snapshots n LEFT JOIN snapshot_status st ON st.snapshot = n.id
        WHERE n.sandbox = s.id AND n.purpose = 'rolling' AND n.kind = 'full' ORDER BY n.created_at DESC LIMIT 1), false)
        OR coalesce((SELECT n.deleted_at IS NULL AND n.gone_at IS NULL AND coalesce(st.state, 'making') = 'making' FROM snapshots n LEFT JOIN snapshot_status st ON st.snapshot = n.id
        WHERE n.sandbox = s.id AND n.purpose = 'rolling' AND n.kind = 'disk' ORDER BY n.created_at DESC LIMIT 1), false) AS making
FROM sandboxes s WHERE s.rolling IS NOT NULL AND s.deleted_at IS NULL;

-- When what wasn't asked for suspends a sandbox again whose suspends have failed: a minute after the first of them, then twice as long after each, an hour at most.
-- Null: none has failed since one has succeeded, or within a day.
-- +goose StatementBegin
CREATE FUNCTION suspend_again_at(box text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT max(o.ended_at) + least(interval '1 minute' * 2 ^ least(count(*) - 1, 10), interval '1 hour')
    FROM operations o
    WHERE o.sandbox = box AND o.kind = 'suspend_sandbox' AND o.status = 'failed' AND o.ended_at > now() - interval '1 day'
        AND NOT EXISTS (SELECT FROM operations x WHERE x.sandbox = box AND x.kind = 'suspend_sandbox' AND x.status = 'succeeded' AND x.ended_at > o.ended_at)
$$;
-- +goose StatementEnd
