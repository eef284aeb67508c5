-- What sandboxes of a template do by themselves that say nothing else.

-- +goose Up

ALTER TABLE templates ADD COLUMN lifecycle jsonb; -- null: what the platform's do
