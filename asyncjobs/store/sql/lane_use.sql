-- Slots, running jobs, and jobs that were claimed ahead, by queue, lane and runner.
SELECT u.queue, u.lane, u.runner_id, coalesce(pg_catalog.max(u.slots), 0) AS slots, pg_catalog.sum(u.in_use)::integer AS in_use,
    pg_catalog.sum(u.ahead)::integer AS ahead
FROM (
    SELECT q.key AS queue, nullif(l.key, '') AS lane, r.id AS runner_id, l.value::integer AS slots, 0 AS in_use, 0 AS ahead
    FROM asyncjobs.runners AS r CROSS JOIN LATERAL pg_catalog.jsonb_each(r.slots) AS q
    CROSS JOIN LATERAL pg_catalog.jsonb_each_text(q.value) AS l
    WHERE r.stopped_at IS NULL
    UNION ALL
    SELECT f.queue, f.lane, f.runner_id, NULL, CASE WHEN f.is_ahead THEN 0 ELSE 1 END, CASE WHEN f.is_ahead THEN 1 ELSE 0 END
    FROM asyncjobs.in_flight(NULL) AS f
) AS u
GROUP BY u.queue, u.lane, u.runner_id ORDER BY u.queue, u.lane NULLS FIRST, u.runner_id;
