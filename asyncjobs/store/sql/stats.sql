-- What is not finished, by queue, type and status, read from the partial indexes and not from the finished rows.
SELECT c.queue, c.type, c.status, c.count, c.oldest_at,
    EXISTS (SELECT FROM asyncjobs.runners AS r WHERE c.type = ANY (r.types) AND c.queue = ANY (r.queues)) AS served
FROM (
    SELECT l.queue, l.type, l.status, pg_catalog.count(1) AS count, asyncjobs.instant(pg_catalog.min(l.since)) AS oldest_at
    FROM asyncjobs.live_jobs AS l GROUP BY l.queue, l.type, l.status) AS c
ORDER BY c.queue, c.type, c.status;
