-- name: LockTemplateLog :one
-- The head of a template's log, made if there is none. No row: the template is gone.
INSERT INTO template_logs (template, before, newest, newest_at)
SELECT t.id, 0, 0, 'epoch' FROM templates t WHERE t.id = @template
ON CONFLICT (template) DO UPDATE SET before = template_logs.before
RETURNING before, newest, newest_at;

-- name: SetTemplateLog :exec
UPDATE template_logs SET before = @before, newest = @newest, newest_at = @newest_at WHERE template = @template;

-- name: InsertLogLines :exec
INSERT INTO template_log_lines (template, number, at, step, line)
SELECT @template, unnest(@numbers::bigint[]), unnest(@ats::timestamptz[]), unnest(@steps::integer[]), unnest(@lines::text[])
ON CONFLICT (template, number) DO NOTHING;

-- name: DropLogLines :exec
DELETE FROM template_log_lines WHERE template = @template AND number <= @upto;

-- name: LogCut :one
-- The newest line that must go so that those behind it are within both limits; 0 if none must.
SELECT coalesce(max(number), 0)::bigint FROM (
    SELECT number, row_number() OVER newest_first AS count, sum(octet_length(line)) OVER newest_first AS bytes
    FROM template_log_lines WHERE template = @template WINDOW newest_first AS (ORDER BY number DESC)
) x WHERE count > @max_lines::bigint OR bytes > @max_bytes::bigint;

-- name: LogSize :one
SELECT count(*) AS lines, coalesce(sum(octet_length(line)), 0)::bigint AS bytes FROM template_log_lines WHERE template = @template;

-- name: LogLines :many
SELECT l.number, l.at, l.step, l.line, h.before FROM template_log_lines l JOIN template_logs h ON h.template = l.template
WHERE l.template = @template AND l.number > @after ORDER BY l.number LIMIT @max_rows;

-- name: NewestLogLine :one
-- The number of the last line that a template's log ever had; 0 if it had none.
SELECT coalesce(max(newest), 0)::bigint FROM template_logs WHERE template = @template;
