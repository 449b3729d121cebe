-- Limits and totals of queues, with what counts and how they are used; at most $1 waiting jobs of each are counted.
SELECT l.kind, l.name, l.total, l.each, l.every AS every_seconds, l.burst, l.weight, l.by_hand::text AS by_hand, l.set_by,
    asyncjobs.instant(l.set_at) AS set_at, asyncjobs.instant(l.declared_at) AS declared_at,
    (CASE l.kind WHEN 'limit' THEN asyncjobs.running_of(l.name, 2147483647)::bigint ELSE (
        SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.queue = l.name) END) AS running,
    w.waiting, w.keys
FROM asyncjobs.limits AS l
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) AS waiting, pg_catalog.count(DISTINCT j.limit_key) AS keys FROM (
        SELECT j.limit_key FROM asyncjobs.jobs AS j
        WHERE l.kind = 'limit' AND asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NOT NULL AND j.status = 'pending'
          AND (j.limit_key = l.name OR (j.limit_key > (l.name || ':') AND j.limit_key < (l.name || ';')))
        LIMIT $1::integer) AS j) AS w
ORDER BY l.kind, l.name
