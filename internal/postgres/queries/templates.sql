-- name: LockName :exec
-- Until the end of the transaction nobody else changes what a project's name, its tags or an alias of that name mean.
SELECT pg_advisory_xact_lock(hashtextextended(@project::text || '/' || @name::text, 0));

-- name: HoldTemplate :one
-- Keeps a template from being deleted until the end of the transaction. No row: it is deleted.
SELECT id FROM templates WHERE id = @id AND deleted_at IS NULL FOR KEY SHARE;

-- name: HoldTemplates :exec
-- As HoldTemplate. Returns those that aren't deleted.
SELECT id FROM templates WHERE id = ANY((SELECT @ids::text[])::text[]) AND deleted_at IS NULL ORDER BY id FOR KEY SHARE;

-- name: CountTemplates :one
SELECT count(*) FROM templates WHERE project = @project AND superseded_at IS NULL AND deleted_at IS NULL;

-- name: NewestVersion :one
-- The newest version of a name that hasn't failed.
SELECT t.id, t.content_hash, coalesce(st.state, 'building')::text AS state
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.project = @project AND t.name = @name AND t.superseded_at IS NULL AND t.deleted_at IS NULL AND coalesce(st.state, 'building') <> 'failed'
ORDER BY t.created_at DESC, t.id DESC LIMIT 1 FOR UPDATE OF t;

-- name: SupersedeFailed :many
-- Those versions of a name that another build replaces: their build failed, and they were never ready or are of the same content.
UPDATE templates t SET superseded_at = now() FROM template_status st
WHERE st.template = t.id AND st.state = 'failed' AND t.project = @project AND t.name = @name AND t.superseded_at IS NULL AND t.deleted_at IS NULL
    AND (st.ready_at IS NULL OR t.content_hash = @content_hash)
RETURNING t.id;

-- name: InsertTemplate :exec
INSERT INTO templates (id, project, name, node, vcpus, memory_bytes, disk_bytes, build_sealed, registry_auth_sealed, content_hash, source, base, wanted_tags, lifecycle)
VALUES (@id, @project, @name, @node, @vcpus, @memory_bytes, @disk_bytes, @build_sealed, @registry_auth_sealed, @content_hash, @source, @base, @wanted_tags, @lifecycle);

-- name: ShareTemplate :exec
-- If its project is its organisation's first one, which is the platform's own.
UPDATE templates t SET shared = true FROM projects p
WHERE t.id = @id AND NOT t.shared AND p.id = t.project
    AND p.id = (SELECT o.id FROM projects o WHERE o.org = p.org AND o.deleted_at IS NULL ORDER BY o.created_at, o.id LIMIT 1);

-- name: InheritNames :exec
UPDATE template_names SET template = @template WHERE template = ANY(@superseded::text[]);

-- name: InheritTags :exec
UPDATE template_tags SET template = @template WHERE template = ANY(@superseded::text[]);

-- name: ClaimName :exec
-- The name of a template whose build begins: it takes one that means nothing, or a version that failed.
INSERT INTO template_names (project, name, template) SELECT t.project, t.name, t.id FROM templates t WHERE t.id = @template
ON CONFLICT (project, name) DO UPDATE SET template = excluded.template
WHERE EXISTS (SELECT 1 FROM template_status st WHERE st.template = template_names.template AND st.state = 'failed');

-- name: ClaimTags :exec
INSERT INTO template_tags (project, name, tag, template)
SELECT t.project, t.name, unnest(t.wanted_tags), t.id FROM templates t WHERE t.id = @template
ON CONFLICT (project, name, tag) DO UPDATE SET template = excluded.template
WHERE EXISTS (SELECT 1 FROM template_status st WHERE st.template = template_tags.template AND st.state = 'failed');

-- name: TakeName :exec
-- The name of a template that is ready: it takes it from an older version.
INSERT INTO template_names (project, name, template)
SELECT t.project, t.name, t.id FROM templates t WHERE t.id = @template AND t.superseded_at IS NULL AND t.deleted_at IS NULL
ON CONFLICT (project, name) DO UPDATE SET template = excluded.template
WHERE (SELECT o.created_at FROM templates o WHERE o.id = template_names.template)
    <= (SELECT m.created_at FROM templates m WHERE m.id = excluded.template);

-- name: TakeTags :exec
INSERT INTO template_tags (project, name, tag, template)
SELECT t.project, t.name, unnest(t.wanted_tags), t.id FROM templates t WHERE t.id = @template AND t.superseded_at IS NULL AND t.deleted_at IS NULL
ON CONFLICT (project, name, tag) DO UPDATE SET template = excluded.template
WHERE (SELECT o.created_at FROM templates o WHERE o.id = template_tags.template)
    <= (SELECT m.created_at FROM templates m WHERE m.id = excluded.template);

-- name: WantTags :exec
UPDATE templates SET wanted_tags = (SELECT array_agg(DISTINCT w) FROM unnest(wanted_tags || @tags::text[]) w) WHERE id = @id;

-- name: SetTemplateLifecycle :exec
UPDATE templates SET lifecycle = @lifecycle WHERE id = @id;

-- name: SetTag :exec
INSERT INTO template_tags (project, name, tag, template) SELECT t.project, t.name, @tag, t.id FROM templates t WHERE t.id = @template
ON CONFLICT (project, name, tag) DO UPDATE SET template = excluded.template;

-- name: DeleteTag :execrows
DELETE FROM template_tags WHERE project = @project AND name = @name AND tag = @tag;

-- name: CountTags :one
-- Of all versions of a name.
SELECT count(*) FROM template_tags WHERE project = @project AND name = @name;

-- name: AliasOf :one
SELECT name FROM template_aliases WHERE project = @project AND alias = @alias;

-- name: CountAliases :one
SELECT count(*) FROM template_aliases WHERE project = @project AND name = @name;

-- name: NameInUse :one
-- Whether any version has it as its name.
SELECT EXISTS (SELECT 1 FROM templates WHERE project = @project AND name = @name AND superseded_at IS NULL AND deleted_at IS NULL);

-- name: InsertAlias :exec
INSERT INTO template_aliases (project, alias, name) VALUES (@project, @alias, @name);

-- name: DeleteAlias :execrows
DELETE FROM template_aliases WHERE project = @project AND name = @name AND alias = @alias;

-- name: LockTemplate :one
SELECT t.id, t.name, t.node, (t.deleted_at IS NOT NULL)::boolean AS deleted, (t.superseded_at IS NOT NULL)::boolean AS superseded
FROM templates t WHERE t.project = @project AND t.id = @id FOR UPDATE;

-- name: TemplateUsers :one
-- What keeps a template from being deleted.
SELECT (SELECT count(*) FROM sandboxes s WHERE s.template = @template::text AND s.desired <> 'deleted') AS sandboxes,
    (SELECT count(*) FROM snapshots n WHERE n.template = @template::text AND n.deleted_at IS NULL AND n.gone_at IS NULL) AS snapshots,
    (SELECT count(*) FROM templates t LEFT JOIN template_status st ON st.template = t.id
        WHERE t.base = @template::text AND t.superseded_at IS NULL AND t.deleted_at IS NULL AND coalesce(st.state, 'building') = 'building') AS builds;

-- name: MarkTemplateDeleted :exec
UPDATE templates SET deleted_at = now(), registry_auth_sealed = NULL WHERE id = @id;

-- name: DropNames :exec
DELETE FROM template_names WHERE template = @template;

-- name: DropAliases :exec
-- Those of a name that no version has any more.
DELETE FROM template_aliases a USING templates d WHERE d.id = @template AND a.project = d.project AND a.name = d.name AND NOT EXISTS (
    SELECT 1 FROM templates t WHERE t.project = d.project AND t.name = d.name AND t.superseded_at IS NULL AND t.deleted_at IS NULL);

-- name: DropTags :exec
DELETE FROM template_tags WHERE template = @template;

-- name: TemplateBuild :one
SELECT project, recipe, build_sealed, registry_auth_sealed, vcpus, memory_bytes, disk_bytes FROM templates WHERE id = @id AND superseded_at IS NULL AND deleted_at IS NULL;

-- name: DropRegistryAuth :exec
-- The build has ended.
UPDATE templates SET registry_auth_sealed = NULL WHERE id = @id AND registry_auth_sealed IS NOT NULL;

-- name: Template :one
-- By id; else by name, else by name and tag. An alias stands for its name. A name that means nothing in the project means what is shared under it.
SELECT t.id, t.project, t.name, t.node, t.vcpus, t.memory_bytes, t.disk_bytes, t.source, t.shared, t.created_at, t.lifecycle,
    ARRAY(SELECT g.tag FROM template_tags g WHERE g.template = t.id AND t.project = @project ORDER BY g.tag)::text[] AS tags,
    ARRAY(SELECT a.alias FROM template_aliases a JOIN template_names n ON n.project = a.project AND n.name = a.name
        WHERE n.template = t.id AND t.project = @project ORDER BY a.alias)::text[] AS aliases,
    EXISTS (SELECT 1 FROM template_names n WHERE n.template = t.id) AS named,
    st.state, st.vcpus AS actual_vcpus, st.memory_bytes AS actual_memory_bytes, st.disk_bytes AS actual_disk_bytes,
    st.digest, st.progress, st.error_code, st.error_message, st.error_field, st.failed_step, st.env_sealed, st.run_as, st.workdir,
    (SELECT op.request FROM operations op WHERE op.template = t.id ORDER BY op.created_at DESC, op.id DESC LIMIT 1) AS request
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.deleted_at IS NULL AND EXISTS (SELECT 1 FROM project_templates v WHERE v.project = @project AND v.template = t.id) AND t.id = CASE
    WHEN @id::text <> '' THEN @id::text
    WHEN @tag::text = '' THEN coalesce(
        (SELECT n.template FROM template_names n WHERE n.project = @project AND n.name = coalesce(
            (SELECT a.name FROM template_aliases a WHERE a.project = @project AND a.alias = @name::text), @name::text)),
        (SELECT n.template FROM template_names n JOIN project_templates v ON v.template = n.template AND v.project = @project
            WHERE n.name = @name::text AND n.project <> @project))
    ELSE (SELECT g.template FROM template_tags g WHERE g.project = @project AND g.tag = @tag::text AND g.name = coalesce(
        (SELECT a.name FROM template_aliases a WHERE a.project = @project AND a.alias = @name::text), @name::text))
    END;

-- name: Templates :many
-- Newest first, without those that are deleted or replaced; with what is shared.
SELECT t.id, t.project, t.name, t.node, t.vcpus, t.memory_bytes, t.disk_bytes, t.source, t.shared, t.created_at, t.lifecycle,
    ARRAY(SELECT g.tag FROM template_tags g WHERE g.template = t.id AND t.project = @project ORDER BY g.tag)::text[] AS tags,
    ARRAY(SELECT a.alias FROM template_aliases a JOIN template_names n ON n.project = a.project AND n.name = a.name
        WHERE n.template = t.id AND t.project = @project ORDER BY a.alias)::text[] AS aliases,
    EXISTS (SELECT 1 FROM template_names n WHERE n.template = t.id) AS named,
    st.state, st.vcpus AS actual_vcpus, st.memory_bytes AS actual_memory_bytes, st.disk_bytes AS actual_disk_bytes,
    st.digest, st.progress, st.error_code, st.error_message, st.error_field, st.failed_step, st.env_sealed, st.run_as, st.workdir,
    (SELECT op.request FROM operations op WHERE op.template = t.id ORDER BY op.created_at DESC, op.id DESC LIMIT 1) AS request
FROM templates t LEFT JOIN template_status st ON st.template = t.id
WHERE t.id IN (SELECT v.template FROM project_templates v WHERE v.project = @project) AND t.superseded_at IS NULL AND t.deleted_at IS NULL
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (t.created_at, t.id) < (sqlc.narg('before_at')::timestamptz, @before_id::text))
ORDER BY t.created_at DESC, t.id DESC
LIMIT @max_rows;
