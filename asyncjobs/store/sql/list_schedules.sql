-- All schedules ($1 null), or one, and how many live runners would fire each.
SELECT s.name, s.type, s.queue, s.payload, s.serialization_key, s.dedup_key, s.cron, asyncjobs.span(s.every) AS every, s.timezone, s.misfire, s.overlap,
    asyncjobs.instant(s.last_tick) AS last_tick, s.last_job_id, s.enabled, s.disabled_because, s.disabled_reason, asyncjobs.instant(s.created_at) AS created_at,
    asyncjobs.instant(s.updated_at) AS updated_at,
    (SELECT pg_catalog.count(1) FROM asyncjobs.schedule_declarations AS d WHERE d.name = s.name AND d.definition = s.definition) AS runners
FROM asyncjobs.schedules AS s WHERE $1::text IS NULL OR s.name = $1::text ORDER BY s.name;
