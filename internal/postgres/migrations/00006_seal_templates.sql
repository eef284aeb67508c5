-- What a template is made of and sets for sessions may be secret: it's sealed from now on, so that a dump doesn't hold it.

-- +goose Up

-- SQL can't seal. What is made from a built-in recipe alone has nothing to hide and is kept by the recipe's name; what is made of anything
-- else, from before, is given up.
ALTER TABLE templates
    ADD COLUMN recipe       text, -- of a template from before
    ADD COLUMN build_sealed bytea; -- JSON; null: the recipe
UPDATE templates SET recipe = build #>> '{source,recipe}' WHERE build ?& '{source}' AND build - 'source' = '{}';
UPDATE templates SET superseded_at = now(), recipe = '' WHERE recipe IS NULL;
ALTER TABLE templates
    DROP COLUMN build,
    ADD CHECK ((recipe IS NULL) = (build_sealed IS NOT NULL));

ALTER TABLE template_status
    DROP COLUMN env,
    ADD COLUMN env_sealed bytea; -- JSON; null: empty
UPDATE template_status SET digest = '' WHERE state = 'ready'; -- the next report is written anew
