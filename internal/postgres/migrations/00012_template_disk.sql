-- Templates' disks count towards their project's quota as sandboxes' disks do.

-- +goose Up

-- What a project uses of its quota. Of sandboxes, what is desired to go counts no more; what is desired to be stopped keeps its place and its
-- disk. Templates have a disk from the moment their build is ordered, unless it failed; one that is as large as its files need counts 64 MiB, the
-- least that it can be, until it's known.
CREATE VIEW project_usage AS
SELECT p.id AS project, b.sandboxes, b.vcpus, b.memory_bytes, (b.disk_bytes + t.disk_bytes)::bigint AS disk_bytes
FROM projects p
CROSS JOIN LATERAL (
    SELECT count(*)::bigint AS sandboxes,
        coalesce(sum(s.vcpus) FILTER (WHERE s.desired = 'running'), 0)::bigint AS vcpus,
        coalesce(sum(s.memory_bytes) FILTER (WHERE s.desired = 'running'), 0)::bigint AS memory_bytes,
        coalesce(sum(s.disk_bytes), 0)::bigint AS disk_bytes
    FROM sandboxes s WHERE s.project = p.id AND s.desired <> 'deleted' AND s.deleted_at IS NULL -- the latter for the index
) b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(greatest(x.disk_bytes, coalesce(st.disk_bytes, 0), 67108864)), 0)::bigint AS disk_bytes
    FROM templates x LEFT JOIN template_status st ON st.template = x.id
    WHERE x.project = p.id AND x.superseded_at IS NULL AND x.deleted_at IS NULL AND coalesce(st.state, 'building') <> 'failed'
) t;
