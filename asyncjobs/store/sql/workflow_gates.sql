-- What members of a workflow wait for, and how many do.
SELECT g.id, g.name, g.size, g.missing, g.dead, g.opened_at, d.waiting, d.released, d.broken
FROM asyncjobs.gates AS g CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) FILTER (WHERE o.state = 'waiting') AS waiting, pg_catalog.count(1) FILTER (WHERE o.state = 'released') AS released,
        pg_catalog.count(1) FILTER (WHERE o.state = 'broken') AS broken
    FROM asyncjobs.dependents AS o WHERE o.gate_id = g.id) AS d
WHERE g.workflow_id = $1::bigint AND g.id <> $1::bigint ORDER BY g.size DESC, g.id LIMIT $2::integer;
