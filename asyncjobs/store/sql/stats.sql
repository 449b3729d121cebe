-- What is not finished, by queue, type and status, read from the partial indexes and not from the finished rows.
SELECT l.queue, l.type, l.status, pg_catalog.count(1) AS count, asyncjobs.instant(pg_catalog.min(l.since)) AS oldest_at,
    EXISTS (SELECT FROM asyncjobs.runners AS r WHERE l.type = ANY (r.types) AND l.queue = ANY (r.queues)) AS served
FROM (
    SELECT j.queue, j.type, j.status, j.run_at AS since FROM asyncjobs.jobs AS j WHERE j.status = 'pending'
    UNION ALL
    SELECT j.queue, j.type, j.status, j.run_at FROM asyncjobs.jobs AS j WHERE j.status IN ('scheduled', 'failed')
    UNION ALL
    SELECT j.queue, j.type, j.status, j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'paused'
    UNION ALL
    SELECT j.queue, j.type, j.status, j.started_at FROM asyncjobs.jobs AS j WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
    UNION ALL
    SELECT s.queue, s.type, 'waiting', s.created_at FROM asyncjobs.serialized_jobs AS s WHERE s.job_id IS NULL
) AS l
GROUP BY l.queue, l.type, l.status
ORDER BY l.queue, l.type, l.status;
