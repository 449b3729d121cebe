-- What is not finished, by queue, type and status, read from the partial indexes and not from the finished rows.
SELECT v.queue, v.type, v.status, pg_catalog.sum(v.count)::bigint AS count, asyncjobs.instant(pg_catalog.min(v.since)) AS oldest_at,
    coalesce(pg_catalog.sum(v.count) FILTER (WHERE NOT v.served), 0)::bigint AS unserved
FROM (SELECT l.queue, l.type, l.status, pg_catalog.count(1) AS count, pg_catalog.min(l.since) AS since,
    EXISTS (SELECT FROM asyncjobs.runners AS r WHERE l.type = ANY (r.types) AND l.queue = ANY (r.queues)
        AND asyncjobs.can_run(r.versions, l.type, l.version)) AS served
FROM (
    SELECT j.queue, j.type, j.status, j.version, j.run_at AS since FROM asyncjobs.jobs AS j WHERE j.status = 'pending'
    UNION ALL
    SELECT j.queue, j.type, j.status, j.version, j.run_at FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed')
    UNION ALL
    SELECT j.queue, j.type, j.status, j.version, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'paused'
    UNION ALL
    SELECT j.queue, j.type, j.status, j.version, j.started_at FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
    UNION ALL
    SELECT s.queue, s.type, 'waiting', s.version, s.created_at FROM asyncjobs.serialized_jobs AS s WHERE s.job_id IS NULL
) AS l
GROUP BY l.queue, l.type, l.status, l.version) AS v
GROUP BY v.queue, v.type, v.status
ORDER BY v.queue, v.type, v.status;
