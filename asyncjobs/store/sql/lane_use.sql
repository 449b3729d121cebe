-- Slots and running jobs by queue, lane and runner.
SELECT u.queue, u.lane, u.runner_id, coalesce(pg_catalog.max(u.slots), 0) AS slots, pg_catalog.sum(u.in_use)::integer AS in_use
FROM (
    SELECT q.key AS queue, nullif(l.key, '') AS lane, r.id AS runner_id, l.value::integer AS slots, 0 AS in_use
    FROM asyncjobs.runners AS r CROSS JOIN LATERAL pg_catalog.jsonb_each(r.slots) AS q
    CROSS JOIN LATERAL pg_catalog.jsonb_each_text(q.value) AS l
    UNION ALL
    SELECT j.queue, j.lane, j.runner_id, NULL, 1 FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
) AS u
GROUP BY u.queue, u.lane, u.runner_id ORDER BY u.queue, u.lane NULLS FIRST, u.runner_id;
