-- How each type fares: what is unfinished, from the partial indexes, and what ended in the last hour, from the roll-ups. `oldest` is
-- since when the oldest is due, runs or waits (of those that ended: the first minute that counts); `average_wait` is how long they have
-- been waiting (of those that run or ended: how long they had waited when they started).
CREATE VIEW asyncjobs.job_queue_health AS
SELECT u.type, u.status, pg_catalog.count(1) AS count, pg_catalog.min(u.since) AS oldest, pg_catalog.avg(u.waited) AS average_wait
FROM (
    SELECT j.type, j.status, j.run_at AS since, asyncjobs.clock() - j.run_at AS waited FROM asyncjobs.jobs AS j
    WHERE j.status = 'pending' AND j.limit_key IS NULL
    UNION ALL
    SELECT j.type, j.status, j.run_at, asyncjobs.clock() - j.run_at FROM asyncjobs.jobs AS j
    WHERE j.status = 'pending' AND j.limit_key IS NOT NULL
    UNION ALL
    SELECT j.type, j.status, j.run_at, greatest(asyncjobs.clock() - j.run_at, interval '0') FROM asyncjobs.jobs AS j
    WHERE j.status IN ('scheduled', 'failed')
    UNION ALL
    SELECT j.type, j.status, j.started_at, j.started_at - j.run_at FROM asyncjobs.jobs AS j
    WHERE j.runner_id IS NOT NULL AND j.status = 'processing'
    UNION ALL
    SELECT j.type, j.status, j.created_at, asyncjobs.clock() - j.created_at FROM asyncjobs.jobs AS j WHERE j.status = 'waiting'
) AS u
GROUP BY u.type, u.status
UNION ALL
SELECT m.job_type, m.status, pg_catalog.sum(m.count)::bigint, pg_catalog.min(m.minute),
    pg_catalog.make_interval(secs => pg_catalog.sum(m.queue_seconds) / pg_catalog.sum(m.count)::float8)
FROM asyncjobs.job_metrics AS m
WHERE m.span = interval '1 minute' AND m.minute > asyncjobs.clock() - interval '1 hour'
    AND m.status IN ('completed', 'dead', 'cancelled')
GROUP BY m.job_type, m.status;
