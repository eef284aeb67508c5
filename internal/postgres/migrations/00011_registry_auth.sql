-- A login for the registry of a template's image, for the time of its build.

-- +goose Up

ALTER TABLE templates ADD COLUMN registry_auth_sealed bytea; -- null: none, or the build has ended
