-- Bytes that a sandbox sends may keep it awake.

-- +goose Up

ALTER TABLE sandboxes ADD COLUMN idle_egress boolean NOT NULL DEFAULT false; -- they count as activity
