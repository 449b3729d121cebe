-- The first $2 members of a workflow, by what distinguishes them in a picture: their type, where they arrive and what they wait for, by
-- which rule, and whether another member has added them. How many have which status, and the first of them.
SELECT f.type, f.gates, f.waits, f.after, f.is_spawned, f.status, pg_catalog.count(1) AS count, pg_catalog.min(f.number) AS first,
    (pg_catalog.array_agg(f.job_id ORDER BY f.number))[1] AS job_id
FROM (
    SELECT m.number, m.job_id, coalesce(j.type, '') AS type, m.gates, coalesce(j.status, 'gone') AS status, m.spawned_by IS NOT NULL AS is_spawned,
        ARRAY(SELECT d.gate_id FROM asyncjobs.dependents AS d WHERE d.job_id = m.job_id AND d.rule = 'completed' ORDER BY d.gate_id) AS waits,
        ARRAY(SELECT d.gate_id FROM asyncjobs.dependents AS d WHERE d.job_id = m.job_id AND d.rule = 'ended' ORDER BY d.gate_id) AS after
    FROM (SELECT o.number, o.job_id, o.gates, o.spawned_by FROM asyncjobs.members AS o
          WHERE o.workflow_id = $1::bigint ORDER BY o.number LIMIT $2::integer) AS m
    LEFT JOIN asyncjobs.jobs AS j ON j.id = m.job_id) AS f
GROUP BY f.type, f.gates, f.waits, f.after, f.is_spawned, f.status ORDER BY first;
