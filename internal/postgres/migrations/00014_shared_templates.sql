-- The templates of a platform's own project that are a recipe and nothing more can be used by all projects of its organisation.

-- +goose Up
ALTER TABLE templates ADD COLUMN shared boolean NOT NULL DEFAULT false; -- becomes true for one that was there when its build is asked for again

-- The templates that a project can name: its own, and those that are shared in its organisation.
CREATE VIEW project_templates AS
SELECT p.id AS project, t.id AS template FROM projects p JOIN templates t ON t.project = p.id
UNION ALL
SELECT p.id, t.id FROM projects p JOIN projects o ON o.org = p.org AND o.id <> p.id JOIN templates t ON t.project = o.id
WHERE t.shared AND t.superseded_at IS NULL AND t.deleted_at IS NULL AND EXISTS (SELECT 1 FROM template_names n WHERE n.template = t.id);
CREATE INDEX templates_shared ON templates (project) WHERE shared;
