-- What ended since $1 and before 5 s ago, which leaves time to commit; at most $2, the oldest first. `until`: where the next look goes on.
WITH look AS MATERIALIZED (SELECT asyncjobs.clock() - interval '5 s' AS until),
ended AS MATERIALIZED (
    SELECT w.ended_at, w.cancel_requested_at IS NOT NULL AS is_cancelled, g.dead, extract(epoch FROM w.ended_at - w.created_at)::float8 AS seconds
    FROM asyncjobs.workflows AS w JOIN asyncjobs.gates AS g ON g.id = w.id
    WHERE w.ended_at > $1::timestamptz AND w.ended_at <= (SELECT l.until FROM look AS l) ORDER BY w.ended_at LIMIT $2::integer)
SELECT coalesce(CASE WHEN pg_catalog.count(e.ended_at) OVER () >= $2::integer THEN pg_catalog.max(e.ended_at) OVER () END, l.until) AS until,
    CASE WHEN e.dead = 0 THEN 'completed' ELSE 'broken' END AS state, e.seconds
FROM look AS l LEFT JOIN ended AS e ON true;
