-- The breakers that were ever declared, by name.
SELECT b.service_name AS service, b.state, b.reason, b.failure_count, b.success_count, asyncjobs.instant(b.last_failure_at) AS last_failure_at,
    asyncjobs.instant(b.opened_at) AS opened_at, asyncjobs.instant(b.half_opens_at) AS half_opens_at, asyncjobs.instant(b.half_opened_at) AS half_opened_at,
    (SELECT pg_catalog.count(1) FROM pg_catalog.unnest(b.probes_lapse_at) AS p(at) WHERE p.at > asyncjobs.clock()) AS probes, asyncjobs.instant(b.updated_at) AS updated_at,
    ARRAY(SELECT DISTINCT t.type FROM asyncjobs.types AS t WHERE t.breaker = b.service_name ORDER BY t.type) AS types
FROM asyncjobs.circuit_breakers AS b
WHERE $1::text IS NULL OR b.service_name = $1
ORDER BY b.service_name;
