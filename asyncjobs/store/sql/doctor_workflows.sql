-- Workflows to be looked at: 'cancelling' for more than $1 seconds, and those that broke in the last $2 seconds, the newest of them and how many.
(SELECT 'cancelling' AS why, w.id, w.name, extract(epoch FROM asyncjobs.clock() - w.cancel_requested_at)::float8 AS seconds, g.missing AS count
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
WHERE w.ended_at IS NULL AND w.cancel_requested_at < asyncjobs.clock() - pg_catalog.make_interval(secs => $1::float8) ORDER BY w.id LIMIT 10)
UNION ALL
(SELECT 'broken', w.id, w.name, extract(epoch FROM asyncjobs.clock() - w.ended_at)::float8, pg_catalog.count(1) OVER ()
FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
WHERE w.ended_at > asyncjobs.clock() - pg_catalog.make_interval(secs => $2::float8) AND g.dead > 0 AND w.cancel_requested_at IS NULL
ORDER BY w.ended_at DESC LIMIT 1);
