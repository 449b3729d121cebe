-- What members of a workflow wait for, and how many do. (Who waits is found by the members: no index tells it of a gate but of who waits still.)
WITH said AS (
    SELECT d.gate_id, pg_catalog.count(1) FILTER (WHERE d.state = 'waiting') AS waiting,
        pg_catalog.count(1) FILTER (WHERE d.state = 'released') AS released, pg_catalog.count(1) FILTER (WHERE d.state = 'broken') AS broken
    FROM asyncjobs.members AS m JOIN asyncjobs.dependents AS d ON d.job_id = m.job_id
    WHERE m.workflow_id = $1::bigint GROUP BY d.gate_id)
SELECT g.id, g.name, g.size, g.missing, g.dead, g.opened_at, coalesce(s.waiting, 0) AS waiting, coalesce(s.released, 0) AS released,
    coalesce(s.broken, 0) AS broken
FROM asyncjobs.gates AS g LEFT JOIN said AS s ON s.gate_id = g.id
WHERE g.workflow_id = $1::bigint AND g.id <> $1::bigint ORDER BY g.size DESC, g.id LIMIT $2::integer;
