-- The keys of a limit that have something waiting or running: first those whose first job waits for longest.
SELECT k.key, r.running, w.waiting, coalesce(t.is_full, false) AS is_full,
    CASE WHEN o.opens_at > asyncjobs.moment() THEN asyncjobs.instant(o.opens_at) END AS opens_at,
    CASE WHEN k.closed_until > asyncjobs.moment() THEN k.closed_by END AS closed_by, asyncjobs.instant(w.oldest_at) AS oldest_at
FROM asyncjobs.limit_keys AS k
LEFT JOIN asyncjobs.limits AS l ON l.kind = 'limit' AND l.name = $1::text
CROSS JOIN LATERAL (SELECT asyncjobs.key_opens_at(k, l.every, l.burst, asyncjobs.moment()) AS opens_at) AS o
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) AS running FROM asyncjobs.jobs AS j
    WHERE asyncjobs.limit_side(j.status) = 1 AND j.limit_key = k.key AND j.runner_id IS NOT NULL) AS r
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) AS waiting, pg_catalog.min(j.run_at) AS oldest_at FROM asyncjobs.jobs AS j
    WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = k.key AND j.status = 'pending') AS w
CROSS JOIN LATERAL (
    SELECT pg_catalog.bool_or(t.state = 'full') AS is_full FROM asyncjobs.limit_turns AS t WHERE t.key = k.key) AS t
WHERE (k.key = $1::text OR (k.key > ($1::text || ':') AND k.key < ($1::text || ';'))) AND (r.running > 0 OR w.waiting > 0)
ORDER BY w.oldest_at NULLS LAST, k.key LIMIT $2::integer
