-- What a node promises of its memory beside sandboxes' own, as it said last.

-- +goose Up

ALTER TABLE nodes
    ADD COLUMN overhead_bytes        bigint NOT NULL DEFAULT 0 CHECK (overhead_bytes >= 0), -- to each machine, for its VMM
    ADD COLUMN reserved_memory_bytes bigint NOT NULL DEFAULT 0 CHECK (reserved_memory_bytes >= 0); -- of sandbox_memory_bytes: to template builds, and for memory that machines share
