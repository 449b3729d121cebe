-- All schedules ($1 null), or one, and how many live runners would fire each.
SELECT s.name, s.type, s.queue, s.payload, s.serialization_key, s.dedup_key, s.cron, s.every, s.timezone, s.misfire, s.overlap,
    s.last_tick, s.last_job_id, s.enabled, s.disabled_because, s.disabled_reason, s.created_at, s.updated_at,
    (SELECT pg_catalog.count(1) FROM asyncjobs.schedule_declarations AS d WHERE d.name = s.name AND d.definition = s.definition) AS runners
FROM asyncjobs.schedules AS s WHERE $1::text IS NULL OR s.name = $1::text ORDER BY s.name;
