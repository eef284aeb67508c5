-- After a rollback what came after its snapshot isn't the sandbox's past any more, and no recovery point.

-- +goose Up

ALTER TABLE executions ADD COLUMN given_up tstzmultirange NOT NULL DEFAULT '{}'; -- snapshots of its sandbox that were created in these times aren't of its past

-- What has been rolled back before: the last time of each, from which whatever went on goes on.
UPDATE executions e SET given_up = tstzmultirange(tstzrange(n.created_at, o.created_at, '(]'))
FROM snapshots n, operations o
WHERE n.id = e.snapshot AND n.sandbox = e.sandbox AND o.sandbox = e.sandbox AND o.kind = 'rollback_sandbox' AND o.status = 'succeeded' AND o.snapshot = n.id
    AND n.created_at < o.created_at AND o.created_at = (SELECT max(l.created_at) FROM operations l WHERE l.sandbox = e.sandbox AND l.kind = 'rollback_sandbox' AND l.snapshot = n.id);
