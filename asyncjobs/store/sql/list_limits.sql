-- Limits and totals of queues, with what counts and how they are used; at most $1 waiting jobs of each are counted. Idle: for how long, at
-- most, a job has waited for a permit that is free. Differing: living runners that declare it otherwise.
SELECT l.kind, l.name, l.total, l.each, l.every AS every_seconds, l.burst, l.weight, l.by_hand::text AS by_hand, l.set_by,
    asyncjobs.instant(l.set_at) AS set_at, asyncjobs.instant(l.declared_at) AS declared_at,
    (CASE l.kind WHEN 'limit' THEN asyncjobs.running_of(l.name, 2147483647)::bigint ELSE (
        SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.queue = l.name) END) AS running,
    w.waiting, w.oldest_age_seconds, w.keys, k.full_keys, k.closed_keys, k.throttled_keys, i.idle_seconds, ARRAY(
        SELECT r.id FROM asyncjobs.runners AS r CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(r.limits) AS d(item)
        WHERE d.item ->> 'kind' = l.kind AND d.item ->> 'name' = l.name AND d.item -> 'values' <> l.declared
        ORDER BY r.id) AS differing
FROM asyncjobs.limits AS l
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(1) AS waiting, pg_catalog.count(DISTINCT j.limit_key) AS keys,
        greatest(coalesce(extract(epoch FROM asyncjobs.moment() - min(asyncjobs.instant(j.run_at)))::float8, 0), 0) AS oldest_age_seconds
    FROM (
        SELECT j.limit_key, j.run_at FROM asyncjobs.jobs AS j
        WHERE l.kind = 'limit' AND asyncjobs.limit_side(j.status) = 0 AND j.limit_key IS NOT NULL AND j.status = 'pending'
          AND (j.limit_key = l.name OR (j.limit_key > (l.name || ':') AND j.limit_key < (l.name || ';')))
        LIMIT $1::integer) AS j) AS w
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(DISTINCT t.key) FILTER (WHERE t.state = 'full') AS full_keys,
        pg_catalog.count(DISTINCT t.key) FILTER (WHERE t.state = 'closed') AS closed_keys,
        pg_catalog.count(DISTINCT t.key) FILTER (WHERE t.state = 'closed' AND c.closed_until > asyncjobs.moment()) AS throttled_keys
    FROM asyncjobs.limit_turns AS t LEFT JOIN asyncjobs.limit_keys AS c ON c.key = t.key
    WHERE l.kind = 'limit' AND (t.key = l.name OR (t.key > (l.name || ':') AND t.key < (l.name || ';')))) AS k
CROSS JOIN LATERAL (
    SELECT coalesce(pg_catalog.max(extract(epoch FROM
        asyncjobs.moment() - asyncjobs.instant(greatest(t.turned_at, l.opened_at, f.run_at)))::float8), 0.0) AS idle_seconds
    FROM asyncjobs.limit_turns AS t
    CROSS JOIN LATERAL (
        SELECT j.run_at FROM asyncjobs.jobs AS j
        WHERE asyncjobs.limit_side(j.status) = 0 AND j.limit_key = t.key AND j.queue = t.queue AND coalesce(j.lane, '') = t.lane
          AND j.status = 'pending' ORDER BY j.suspicion, j.priority, j.place LIMIT 1) AS f
    WHERE l.kind = 'limit' AND NOT l.is_full AND coalesce(asyncjobs.running_of(l.name, l.total) < l.total, true) AND t.state = 'open' AND (t.key = l.name OR (t.key > (l.name || ':') AND t.key < (l.name || ';')))
      AND (l.each IS NULL OR l.each > (SELECT pg_catalog.count(1) FROM asyncjobs.jobs AS r
          WHERE asyncjobs.limit_side(r.status) = 1 AND r.limit_key = t.key AND r.runner_id IS NOT NULL))) AS i
ORDER BY l.kind, l.name
