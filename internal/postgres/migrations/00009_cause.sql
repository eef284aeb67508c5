-- Which request asked for an operation, so that what is done about it later can be found by the request's id.

-- +goose Up

-- Null: no request asked for it, for example a deadline; or it's from before this migration. A traceparent is there only where spans are made.
ALTER TABLE operations
    ADD COLUMN request     text CHECK (request <> ''),
    ADD COLUMN traceparent text CHECK (traceparent <> '');
