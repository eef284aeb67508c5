-- What a node has left, as it said last.

-- +goose Up

ALTER TABLE nodes
    ADD COLUMN sandbox_memory_bytes   bigint NOT NULL DEFAULT 0 CHECK (sandbox_memory_bytes >= 0), -- that sandboxes may be promised together; 0: not said, as of all that follow
    ADD COLUMN memory_available_bytes bigint NOT NULL DEFAULT 0 CHECK (memory_available_bytes >= 0),
    ADD COLUMN disk_bytes             bigint NOT NULL DEFAULT 0 CHECK (disk_bytes >= 0), -- of the volume
    ADD COLUMN disk_free_bytes        bigint NOT NULL DEFAULT 0 CHECK (disk_free_bytes >= 0),
    ADD COLUMN disk_pressure          text NOT NULL DEFAULT '' CONSTRAINT nodes_disk_pressure_check CHECK (disk_pressure IN ('', 'warning', 'refusing'));
