-- What keeps work from being done, or undone, by why: 'schedule' (it cannot make its job), 'pause', 'breaker' (open; `types` are behind it),
-- 'declared' (types that no living runner has, since when), 'dead' (letters that nobody has acknowledged, since the first), 'failing' (types of which, in the last hour, no attempt succeeded).
-- And the database's time.
SELECT 'now' AS why, NULL AS kind, NULL AS name, NULL::bigint AS count, asyncjobs.instant(asyncjobs.clock()) AS at, NULL::timestamptz AS until,
    NULL AS note, NULL::text[] AS types
UNION ALL
(SELECT 'schedule', NULL, s.name, NULL, NULL, NULL, coalesce(s.disabled_reason, ''), NULL
 FROM asyncjobs.schedules AS s WHERE s.disabled_because = 'failed' ORDER BY s.name)
UNION ALL
(SELECT 'pause', p.kind, p.name, NULL, asyncjobs.instant(p.paused_at), NULL, pg_catalog.concat_ws(': ', 'by ' || p.paused_by, p.reason), NULL
 FROM asyncjobs.pauses AS p WHERE p.kind <> 'key' ORDER BY p.kind, p.name)
UNION ALL
(SELECT 'breaker', NULL, b.service_name, b.failure_count, asyncjobs.instant(b.opened_at), asyncjobs.instant(b.half_opens_at), b.reason,
    ARRAY(SELECT DISTINCT t.type FROM asyncjobs.types AS t WHERE t.breaker = b.service_name ORDER BY t.type)
 FROM asyncjobs.circuit_breakers AS b WHERE b.state = 'open' ORDER BY b.service_name)
UNION ALL
(SELECT 'declared', NULL, t.name, NULL, asyncjobs.instant(pg_catalog.max(t.declared_at)), NULL, NULL, NULL
 FROM asyncjobs.types AS t WHERE NOT EXISTS (SELECT FROM asyncjobs.runners AS r WHERE t.name = ANY (r.types)) GROUP BY t.name)
UNION ALL
(SELECT 'dead', NULL, NULL, pg_catalog.count(1), asyncjobs.instant(pg_catalog.min(d.died_at)), NULL, NULL, NULL
 FROM asyncjobs.dead_letter_jobs AS d WHERE NOT d.acknowledged HAVING pg_catalog.count(1) > 0)
UNION ALL
(SELECT 'failing', NULL, m.job_type, pg_catalog.sum(m.count)::bigint, NULL, NULL, NULL, NULL
 FROM asyncjobs.job_metrics AS m
 WHERE m.span = '1 minute' AND m.minute > asyncjobs.clock() - pg_catalog.make_interval(secs => $1::float8)
     AND m.status IN ('completed', 'failed', 'dead')
 GROUP BY m.job_type
 HAVING pg_catalog.sum(m.count) FILTER (WHERE m.status = 'completed') IS NULL AND pg_catalog.sum(m.count) >= $2::bigint
 ORDER BY m.job_type)
