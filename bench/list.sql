-- 100,000 sandboxes of the only project, as they are after a month of use on 100 other nodes: most are stopped, some run, some are lost or failed, and
-- those of the last day that were deleted are still there. Labels are those that agents' platforms give: a team, a user, a task, a stage.
INSERT INTO nodes (name, driver, acceleration, cpus, memory_bytes, version)
SELECT 'listed-' || n, 'qemu', 'kvm', 64, 1::bigint << 38, 'bench' FROM generate_series(0, 99) n ON CONFLICT DO NOTHING;

CREATE TEMPORARY TABLE listed AS
SELECT n, 'sbx_' || lpad(translate(to_hex(n), '0189', 'wxyz'), 26, 'q') AS sandbox, 'exe_' || lpad(translate(to_hex(n), '0189', 'wxyz'), 26, 'q') AS execution,
    (SELECT id FROM projects WHERE deleted_at IS NULL LIMIT 1) AS project, (SELECT id FROM templates WHERE superseded_at IS NULL AND deleted_at IS NULL LIMIT 1) AS template,
    now() - interval '30 days' * (1 - n / 100000.0) AS at,
    CASE WHEN n % 100 < 60 THEN 'stopped' WHEN n % 100 < 85 THEN 'running' WHEN n % 100 < 92 THEN 'lost' WHEN n % 100 < 95 THEN 'failed' ELSE 'gone' END AS state
FROM generate_series(1, 100000) n;

BEGIN;
INSERT INTO sandboxes (id, project, template, desired, execution, vcpus, memory_bytes, disk_bytes, metadata, created_at, updated_at, deleted_at)
SELECT sandbox, project, template, CASE state WHEN 'gone' THEN 'deleted' WHEN 'stopped' THEN 'stopped' ELSE 'running' END, execution, 1, 1 << 29, 1 << 30,
    jsonb_build_object('team', 'team-' || n % 20, 'user', 'user-' || n % 1000, 'task', 'task-' || n, 'stage', CASE WHEN n % 10 = 0 THEN 'production' ELSE 'development' END),
    at, at, CASE state WHEN 'gone' THEN at END
FROM listed ON CONFLICT DO NOTHING;
INSERT INTO executions (id, sandbox, epoch, placement_kind, node, pod_uid, created_at, gone_at)
SELECT execution, sandbox, 1, 'node', 'listed-' || n % 100, '', at, CASE state WHEN 'gone' THEN at END FROM listed ON CONFLICT DO NOTHING;
INSERT INTO execution_status (execution, state, error_code, error_message, since, observed_at)
SELECT execution, state, CASE WHEN state IN ('lost', 'failed') THEN 'execution_lost' END, CASE WHEN state IN ('lost', 'failed') THEN 'the machine is gone' END, at, at
FROM listed ON CONFLICT DO NOTHING;
INSERT INTO operations (id, project, kind, status, sandbox, created_at, ended_at)
SELECT 'op_' || substr(sandbox, 5), project, 'create_sandbox', 'succeeded', sandbox, at, at FROM listed ON CONFLICT DO NOTHING;
COMMIT;
ANALYZE sandboxes, executions, execution_status, operations; -- as the server itself does within a minute
