-- What a sandbox does by itself: wake when it's needed, end its idleness, take snapshots of itself.

-- +goose Up

ALTER TABLE sandboxes
    ADD COLUMN auto_wake          boolean NOT NULL DEFAULT true,
    ADD COLUMN idle_after_seconds integer DEFAULT 21600 CHECK (idle_after_seconds > 0), -- null: idleness has no end
    ADD COLUMN idle_action        text DEFAULT 'suspend' CONSTRAINT sandboxes_idle_action_check CHECK (idle_action IN ('suspend', 'delete')),
    ADD COLUMN rolling            jsonb,                             -- how it takes snapshots of itself; null: it doesn't
    ADD COLUMN active_at          timestamptz NOT NULL DEFAULT now(), -- when something was last done with it; coarse: within a minute
    ADD CHECK ((idle_after_seconds IS NULL) = (idle_action IS NULL)),
    DROP CONSTRAINT sandboxes_on_expiry_check,
    ADD CONSTRAINT sandboxes_on_expiry_check CHECK (on_expiry IN ('delete', 'stop', 'suspend'));
CREATE INDEX sandboxes_rolling ON sandboxes (id) WHERE rolling IS NOT NULL AND deleted_at IS NULL;
